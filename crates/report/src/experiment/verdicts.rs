//! On which side of its limit each arm lies that an experiment holds against one.

use ringfence_analysis::verdicts::{Judged, Lower};
use ringfence_experiment::budget::Budget;
use ringfence_experiment::task::Task;
use ringfence_studies::findings::Findings;

use crate::commits::method;
use crate::experiment::cases::words;
use crate::numbers::{ns_estimate, ns_interval, percent};
use crate::prove::budget;

/// In a sentence; nothing where none is held.
pub(crate) fn said(found: &Findings) -> Option<String> {
    let measure = &found.plan.experiment.measure;
    let limit = measure.decide.as_ref()?.budget(measure.quantity)?;
    if found.judged.is_empty() {
        return None;
    }
    if found.simulated {
        return Some(format!("No verdict on {}: this was simulated.", budget::text(limit)));
    }
    Some(match limit {
        Budget::Slowdown(_) => of_slowdowns(found, limit),
        Budget::AtMost(..) => of_times(found, limit),
    })
}

fn of_slowdowns(found: &Findings, limit: Budget) -> String {
    let limit = budget::text(limit);
    let one = |judged: &Judged| {
        let side = match judged.within {
            Some(true) => "within",
            Some(false) => "over",
            None => "undecided for",
        };
        format!("{} is {side} the budget of {limit}", words(&found.plan, judged.case))
    };
    let all: Vec<String> = found.judged.iter().map(one).collect();
    let margin = percent(found.plan.experiment.measure.margin.0);
    format!(
        "Verdict: {}. Verdicts in the table are about changes larger than {margin}.",
        all.join(", ")
    )
}

// The answer in a word, then each time that was compared.
fn of_times(found: &Findings, limit: Budget) -> String {
    let sides: Vec<Option<bool>> = found.judged.iter().map(|judged| judged.within).collect();
    let answer = if sides.contains(&Some(false)) {
        "Missed"
    } else if sides.contains(&None) {
        "Undecided"
    } else {
        "Met"
    };
    let quantity = found.plan.experiment.measure.quantity;
    let one = |judged: &Judged| {
        let side = match (judged.within, sides.len()) {
            (None, _) if judged.figure.is_ok() => ", which may be within or over",
            (Some(true), several) if several > 1 => ", within",
            (Some(false), several) if several > 1 => ", over",
            _ => "",
        };
        let name = name(found, judged.case);
        match &judged.lower {
            Some(Lower { quantile, figure }) => format!(
                "{name}: {quantile} is already {}; {quantity} {}",
                ns_interval(figure),
                ns_estimate(&judged.figure)
            ),
            None => format!("{name}: {quantity} {}{side}", ns_estimate(&judged.figure)),
        }
    };
    let all: Vec<String> = found.judged.iter().map(one).collect();
    format!("{answer}: {}. {}.", budget::text(limit), all.join("; "))
}

fn name(found: &Findings, case: usize) -> String {
    match found.plan.metric_task(case) {
        Task::Commit(task) if found.plan.cases[case].baseline.is_none() => method::named(task),
        _ => words(&found.plan, case),
    }
}
