//! What the machine could not hold, each with its reason.

use maud::html;
use ringfence_experiment::Reason;
use ringfence_experiment::plan::Plan;

use crate::experiment::cases::refusals;
use crate::html::Section;
use crate::text::clean;

/// What was not run, as sentences; none where all was.
pub(crate) fn section(lines: &[String]) -> Option<Section> {
    if lines.is_empty() {
        return None;
    }
    let body = html! { ul { @for line in lines { li { (clean(line)) } } } };
    Some(Section { id: "not-run", title: "Not run".into(), body })
}

/// What should be known of the figures of a dataset; none where that is nothing.
pub(crate) fn said(lines: &[String]) -> Option<Section> {
    if lines.is_empty() {
        return None;
    }
    let body = html! { ul { @for line in lines { li { (clean(line)) } } } };
    Some(Section { id: "said", title: "What else was seen".into(), body })
}

/// The cases of a plan that were not run.
pub(crate) fn lines(plan: &Plan) -> Vec<String> {
    let line = |(reason, labels): (&Reason, Vec<String>)| {
        format!("{}, because {reason}", labels.join("; "))
    };
    refusals(plan).into_iter().map(line).collect()
}
