//! Cases that this machine could not hold.

use ringfence_experiment::Reason;
use ringfence_experiment::plan::{Plan, is_left_out};

use crate::experiment::cases::labels::words;
use crate::style::Style;
use crate::text::paragraph;

/// Labels that are named where many cases share a reason.
const MOST_NAMED: usize = 6;

/// Reasons with the labels of the cases that were not run for it.
pub(crate) fn refusals(plan: &Plan) -> Vec<(&Reason, Vec<String>)> {
    let mut reasons: Vec<(&Reason, Vec<String>)> = Vec::new();
    for case in 0..plan.cases.len() {
        // A case that runs only for others is named by the cases that need it.
        let for_others = plan.cases[case].baseline.is_none()
            && plan.cases.iter().any(|other| other.others().any(|needed| needed == case));
        let Some(reason) = plan.refusal(case).filter(|_| !for_others) else { continue };
        let label = words(plan, case);
        match reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, labels)) => labels.push(label),
            None => reasons.push((reason, vec![label])),
        }
    }
    reasons
}

/// `not run: LABEL, because REASON`, one paragraph for each reason; empty where all were run.
pub(crate) fn not_run(plan: &Plan, style: &Style) -> String {
    let mut out = String::new();
    for (reason, labels) in refusals(plan) {
        match &labels[..] {
            [label] => {
                paragraph(&mut out, 0, &format!("not run: {label}, because {reason}"), style)
            }
            _ => {
                let text = format!("not run: {} cases, because {reason}", labels.len());
                paragraph(&mut out, 0, &text, style);
                // What would have been measured in more time is named in full.
                let most = if is_left_out(reason) { labels.len() } else { MOST_NAMED };
                let more = match labels.len().saturating_sub(most) {
                    0 => String::new(),
                    more => format!("; and {more} more"),
                };
                let named = labels.iter().take(most).cloned().collect::<Vec<_>>().join("; ");
                paragraph(&mut out, 2, &format!("{named}{more}"), style);
            }
        }
    }
    out
}
