//! What an experiment found.

use ringfence_experiment::Kind;
use ringfence_experiment::ended::Ended;
use ringfence_studies::findings::Findings;

use crate::aa::text::aa;
use crate::commits::short as commits;
use crate::experiment::cases::cases;
pub(crate) use crate::experiment::marks::SIMULATED;
pub use crate::experiment::marks::ended_early;
use crate::experiment::{short, verdicts};
use crate::latencies::text::latencies;
use crate::lock::text::lock_table;
use crate::sensitivity::text::sensitivity;
use crate::style::Style;
use crate::text::{heading, paragraph};

/// What an experiment found. In short: the answer, the table that supports it, and caveats. With
/// [`Style::details`]: an experiment's tables, or its curves where it was made for them; then what
/// it says of noise, and latencies.
pub fn experiment(found: &Findings, style: &Style) -> String {
    if style.details { details(found, style) } else { short::experiment(found, style) }
}

fn details(found: &Findings, style: &Style) -> String {
    let early = found.ended.as_ref().and_then(Ended::early).map(|why| ended_early(why, style));
    let mut parts: Vec<String> = early.into_iter().chain([tables(found, style)]).collect();
    parts.extend(verdicts::said(found).into_iter().chain(commits::said(found)).map(|text| {
        let mut out = String::new();
        paragraph(&mut out, 0, &text, style);
        out
    }));
    parts.extend(found.aa.as_ref().map(|summary| aa(summary, style)));
    let all = &found.latencies;
    let is_lock = found.plan.experiment.kind == Some(Kind::Lock);
    let brief = if is_lock { lock_table(all, style) } else { String::new() };
    parts.push(brief + &latencies(all, found.scale.as_ref(), style));
    parts.retain(|part| !part.is_empty());
    if found.simulated {
        parts.iter_mut().for_each(|part| *part = format!("{}{part}", simulated(style)));
    }
    parts.join("\n")
}

// Over every table, as each may be copied by itself.
fn simulated(style: &Style) -> String {
    let mut out = String::new();
    heading(&mut out, SIMULATED, style);
    out
}

fn tables(found: &Findings, style: &Style) -> String {
    match found.sensitivity.as_ref().map(|curves| sensitivity(curves, style)) {
        Some(curves) if found.plan.not_run.is_empty() => curves,
        // The cases say what was not run and why.
        Some(curves) => format!("{}\n{curves}", cases(&found.plan, &found.results, style)),
        None => cases(&found.plan, &found.results, style),
    }
}
