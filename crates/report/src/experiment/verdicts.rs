//! On which side of its limit each arm lies that an experiment holds against one.

use ringfence_analysis::verdicts::Judged;
use ringfence_studies::findings::Findings;

use crate::experiment::cases::words;
use crate::numbers::percent;
use crate::prove::budget;

/// In a sentence; nothing where none is held.
pub(crate) fn said(found: &Findings) -> Option<String> {
    let measure = &found.plan.experiment.measure;
    let limit = budget::text(measure.decide.as_ref()?.budget(measure.quantity)?);
    let one = |judged: &Judged| {
        let side = match judged.within {
            Some(true) => "within",
            Some(false) => "over",
            None => "undecided for",
        };
        format!("{} is {side} the budget of {limit}", words(&found.plan, judged.case))
    };
    let all: Vec<String> = found.judged.iter().map(one).collect();
    let (all, margin) = (all.join(", "), percent(measure.margin.0));
    (!all.is_empty()).then(|| {
        format!("Verdict: {all}. Verdicts in the table are about changes larger than {margin}.")
    })
}
