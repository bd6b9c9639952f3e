//! On which side of its limit each arm lies that an experiment holds against one.

use ringfence_analysis::held::Held;
use ringfence_studies::findings::Findings;

use crate::budget;
use crate::cases::words;
use crate::numbers::percent;

/// In a sentence; nothing where none is held.
pub(crate) fn said(found: &Findings) -> Option<String> {
    let measure = &found.plan.experiment.measure;
    let limit = budget::text(measure.decide.as_ref()?.budget(measure.quantity)?);
    let side = |held: &Held| match held.within {
        Some(true) => "within",
        Some(false) => "over",
        None => "undecided for",
    };
    let verdict = match found.held.as_slice() {
        [] => return None,
        [held] => format!("{} the budget of {limit}", side(held)),
        all => {
            let one = |held: &Held| format!("{} is {} it", words(&found.plan, held.case), side(held));
            format!("of a budget of {limit}, {}", all.iter().map(one).collect::<Vec<_>>().join(", "))
        }
    };
    let margin = percent(measure.margin.0);
    Some(format!("Verdict: {verdict}. Verdicts in the table are about changes larger than {margin}."))
}
