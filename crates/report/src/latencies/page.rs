//! Latencies of single operations: a table of the cases, and a figure for each on a logarithmic
//! axis.

use maud::html;
use ringfence_analysis::latency::CaseLatencies;
use ringfence_experiment::histogram::Grid;
use serde::Serialize;

use crate::commits::method;
use crate::histogram::{QUANTILES, quantile, time};
use crate::html::figure::{Chart, Figure};
use crate::html::table::{Align, table};
use crate::html::{Digest, Section};
use crate::latencies::text::{bears, interval, name, notes, quantile as of_case};
use crate::numbers;
use crate::text::{capital, clean};

#[derive(Debug, Serialize)]
pub(crate) struct Drawn {
    /// From, to, count, and the hover text.
    bars: Vec<(u64, u64, u64, String)>,
    /// Quantiles: name and place.
    marks: Vec<(&'static str, u64)>,
}

/// A table and a figure for each case that counted latencies.
pub(crate) fn section(digest: &Digest) -> Option<Section> {
    let all: Vec<CaseLatencies> =
        digest.findings.latencies.iter().map(|one| labelled(one, digest)).collect();
    let all = &all;
    if all.is_empty() {
        return None;
    }
    let body = html! {
        (summary(all))
        @for note in notes(all, digest.findings.scale.as_ref()) {
            p class="note" { (capital(&clean(&note))) "." }
        }
        @if let [one] = &all[..] {
            (figure(one, all))
        } @else {
            details {
                summary { (all.len()) " histograms" }
                div class="row" { @for one in all { (figure(one, all)) } }
            }
        }
    };
    Some(Section { id: "latencies", title: "Latencies".into(), body })
}

/// With the name that its case has on a page. Other roles than the metric's keep theirs.
pub(crate) fn labelled(one: &CaseLatencies, digest: &Digest) -> CaseLatencies {
    let plan = &digest.findings.plan;
    let mut one = one.clone();
    let is_metric = one.role == plan.experiment.metric;
    if let Some(method) = method::of_case(plan, one.case).filter(|_| is_metric) {
        one.label = method;
    }
    one
}

fn summary(all: &[CaseLatencies]) -> maud::Markup {
    let right = |head| (head, Align::Right);
    let mut heads = vec![("case", Align::Left), right("counted")];
    heads.extend(["median", "p90", "p99", "p99.9", "max"].map(right));
    let of_loads = all.iter().any(|one| one.of_loads);
    if of_loads {
        heads.extend([right("misses"), ("interval", Align::Left), right("LLC misses")]);
    }
    let row = |one: &CaseLatencies| {
        let figure = |ns: Option<u64>| ns.map_or(numbers::NO_FIGURE.to_string(), time);
        let mut row = vec![name(one, all), numbers::count(one.histogram.total())];
        row.extend([0.5, 0.9, 0.99, 0.999].map(|share| of_case(one, share, true)));
        row.push(figure(one.histogram.most()));
        if !of_loads {
            return row;
        }
        let share = one.misses.as_ref();
        row.push(share.map_or(numbers::NO_FIGURE.into(), |share| numbers::percent(share.value)));
        row.push(share.map(interval).unwrap_or_default());
        row.push(
            one.counted_misses.map_or(numbers::NO_FIGURE.into(), |misses| format!("{misses:.3}")),
        );
        row
    };
    table("Latencies of each case", &heads, &all.iter().map(row).collect::<Vec<_>>())
}

fn figure(one: &CaseLatencies, all: &[CaseLatencies]) -> maud::Markup {
    let coarse = one.histogram.in_eighths();
    let buckets = coarse.buckets();
    let total: u128 = buckets.iter().map(|(_, count)| u128::from(*count)).sum();
    let share = |count: u64| numbers::percent(count as f64 / total as f64);
    let bars = buckets
        .iter()
        .map(|(floor, count)| {
            let end = end(*floor);
            let text = format!(
                "{} to {}: {}, {}",
                time(*floor),
                time(end),
                numbers::count(*count),
                share(*count)
            );
            ((*floor).max(1), end, *count, text)
        })
        .collect();
    let quantiles = QUANTILES.into_iter().filter(|(share, _)| bears(one, *share));
    let quantiles = quantiles.map(|(share, name)| (name, quantile(buckets, total, share).max(1)));
    let threshold = one.misses.map(|share| ("miss", share.from_ns));
    let marks = quantiles.chain(threshold).collect();
    let rows: Vec<Vec<String>> = buckets
        .iter()
        .map(|(floor, count)| {
            vec![time(*floor), time(end(*floor)), numbers::count(*count), share(*count)]
        })
        .collect();
    let heads = [
        ("from", Align::Right),
        ("to", Align::Right),
        ("count", Align::Right),
        ("share", Align::Right),
    ];
    let chart = Chart::new("histogram", Drawn { bars, marks });
    let title = format!("{}: latency of {}", name(one, all), one.unit);
    Figure {
        title: &title,
        explanation: "Both axes are logarithmic; marks are the lower ends of the buckets in which \
                      the quantiles lie, and of the first that counts as a miss.",
        chart: &chart,
        height: 260,
        legend: html! {},
        table: table(&title, &heads, &rows),
    }
    .render()
}

// The last has none: it is drawn as wide as another.
fn end(floor: u64) -> u64 {
    let bucket = Grid::EIGHTHS.bucket_of(floor);
    Grid::EIGHTHS.floor(bucket + 1)
}
