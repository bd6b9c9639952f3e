//! What an A/A experiment says of the machine's noise.

use maud::html;

use crate::aa::text::sentences;
use crate::html::figure::{Chart, Figure, RangeRow, Ranges, Tip};
use crate::html::table::{Align, table};
use crate::html::{Digest, Section};
use crate::numbers;

/// The panel; none for experiments that compare something. `said` is whether the first screen says
/// in words what it shows.
pub(crate) fn section(digest: &Digest, said: bool) -> Option<Section> {
    let summary = digest.findings.aa.as_ref()?;
    let rows: Vec<RangeRow> = digest
        .findings
        .aa_estimates
        .iter()
        .enumerate()
        .map(|(number, estimate)| {
            let name = format!("experiment {}", number + 1);
            let interval = estimate.ok();
            let alarm = interval.is_some_and(|interval| !interval.contains(1.0));
            RangeRow {
                color: if alarm { "clflush" } else { "clwb" }.into(),
                faint: false,
                figure: interval.map(|interval| [interval.value, interval.low, interval.high]),
                text: interval
                    .map_or(String::new(), |interval| numbers::slowdown_figure(&interval).value),
                tip: Tip::new(&name)
                    .with("slowdown", numbers::slowdown_estimate(estimate))
                    .with("sees", if alarm { "an effect that is not there" } else { "no effect" }),
                name,
            }
        })
        .collect();
    let lines: Vec<Vec<String>> = digest
        .findings
        .aa_estimates
        .iter()
        .enumerate()
        .map(|(number, estimate)| {
            vec![(number + 1).to_string(), numbers::slowdown_estimate(estimate)]
        })
        .collect();
    let height = 64 + 20 * rows.len().min(100) as u32;
    let axis = format!("slowdown of {} against itself", digest.findings.plan.experiment.metric);
    let drawn = rows.iter().any(|row| row.figure.is_some());
    let chart = Chart::new("ranges", Ranges { axis, unit: "slowdown", rows, mark: None });
    let body = html! {
        @if !said { @for sentence in sentences(summary) { p class="said" { (sentence) } } }
        @if !drawn { p { "No experiment has a figure." } }
        @if drawn {
            (Figure {
                title: "What each experiment saw",
                explanation: "In truth nothing changed: intervals that rule out 'no change' are \
                              false alarms.",
                chart: &chart,
                height,
                legend: crate::html::figure::legend([("dot", "clwb", "no \
                    effect"), ("dot", "clflush", "an effect that is not there")]),
                table: table(
                    "What each experiment saw",
                    &[("experiment", Align::Right), ("slowdown", Align::Right)],
                    &lines,
                ),
            }.render())
        }
    };
    Some(Section { id: "aa", title: "A/A: the same task in both arms".into(), body })
}
