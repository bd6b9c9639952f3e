//! Latencies on a logarithmic axis.

use maud::html;
use ringfence_lab::dataset::Histogram;
use serde::Serialize;

use super::Section;
use super::figure::{Chart, Figure};
use super::table::{Align, table};
use crate::histogram::{QUANTILES, quantile, time};
use crate::numbers;

#[derive(Debug, Serialize)]
pub(super) struct Drawn {
    /// From, to, count, and the hover text.
    bars: Vec<(u64, u64, u64, String)>,
    /// Quantiles: name and place.
    marks: Vec<(&'static str, u64)>,
}

/// A figure for each role that counted latencies.
pub(super) fn section(histograms: &[Histogram]) -> Option<Section> {
    if histograms.is_empty() {
        return None;
    }
    let body = html! { div class="row" { @for histogram in histograms { (figure(histogram)) } } };
    Some(Section { id: "latencies", title: "Latencies".into(), body })
}

fn figure(histogram: &Histogram) -> maud::Markup {
    let mut buckets: Vec<(u64, u64)> =
        histogram.buckets.iter().copied().filter(|(_, count)| *count > 0).collect();
    buckets.sort_unstable();
    let total: u128 = buckets.iter().map(|(_, count)| u128::from(*count)).sum();
    let share = |count: u64| numbers::percent(count as f64 / total as f64);
    let bars = buckets
        .iter()
        .map(|(floor, count)| {
            let end = end(*floor);
            let text =
                format!("{} to {}: {}, {}", time(*floor), time(end), numbers::count(*count), share(*count));
            ((*floor).max(1), end, *count, text)
        })
        .collect();
    let marks = QUANTILES.map(|(share, name)| (name, quantile(&buckets, total, share).max(1)));
    let rows: Vec<Vec<String>> = buckets
        .iter()
        .map(|(floor, count)| vec![time(*floor), time(end(*floor)), numbers::count(*count), share(*count)])
        .collect();
    let heads =
        [("from", Align::Right), ("to", Align::Right), ("count", Align::Right), ("share", Align::Right)];
    let chart = Chart::Histogram(Drawn { bars, marks: marks.into() });
    Figure {
        title: &format!("{}: {}", histogram.role, histogram.what),
        explanation: "Both axes are logarithmic; marks are the lower ends of the buckets in which the quantiles lie.",
        chart: &chart,
        height: 260,
        legend: html! {},
        table: table(&heads, &rows),
    }
    .render()
}

// Latencies are recorded in eight parts of each power of two.
fn end(floor: u64) -> u64 {
    let floor = floor.max(1);
    let octave = 1u64 << floor.ilog2();
    if octave < 8 { floor + 1 } else { floor.saturating_add(octave / 8) }
}
