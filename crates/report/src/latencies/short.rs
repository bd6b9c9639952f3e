//! How long single operations take, in four lines: p50, p90, p99 and the longest.

use ringfence_analysis::latency::CaseLatencies;
use ringfence_experiment::quantity::Quantile;
use ringfence_studies::findings::Findings;

use crate::histogram::time;
use crate::numbers::{NO_FIGURE, count, ns_observed, time_figure};
use crate::print::unknown::Unknown;
use crate::style::Style;
use crate::table::{Cell, Column, Table};
use crate::text::{paragraph, width};

const QUANTILES: [Quantile; 3] = [Quantile::P50, Quantile::P90, Quantile::P99];

/// What the mark of a figure without an interval says.
const MARK: &str = "~: not settled; in round brackets the least and the most of any trial.";

/// Those of the role that the figures are about.
pub(crate) fn of_metric(found: &Findings) -> impl Iterator<Item = &CaseLatencies> {
    found.latencies.iter().filter(|one| one.role == found.plan.experiment.metric)
}

/// A case with what it is called.
pub(crate) type Named<'a> = (String, &'a CaseLatencies);

/// A column for each case, where there is room for two at least; empty where there are none.
pub(crate) fn table(all: &[Named], style: &Style) -> String {
    let fits = |shown: usize| Some(of(&all[..shown])).filter(|table| table.fits(style));
    let fewest = all.len().min(2);
    match (fewest..=all.len()).rev().filter(|shown| *shown > 0).find_map(fits) {
        Some(table) => table.render(style),
        None => {
            let mut out = String::new();
            for (name, one) in all {
                paragraph(&mut out, 0, &format!("{name}: {}", line(one)), style);
            }
            out
        }
    }
}

/// What [`MARK`] says, where there is one.
pub(crate) fn mark<'a>(all: impl IntoIterator<Item = &'a CaseLatencies>) -> Option<String> {
    let marked = |one: &CaseLatencies| one.quantiles.iter().any(is_marked);
    all.into_iter().any(marked).then(|| MARK.to_owned())
}

/// The same of one case in a line.
pub(crate) fn line(one: &CaseLatencies) -> String {
    let quantiles = QUANTILES.map(|of| format!("{of} {}", quantile(one, of)));
    format!(
        "{}, longest {} ({} {})",
        quantiles.join(", "),
        longest(one),
        count(one.histogram.total()),
        one.unit
    )
}

fn of(shown: &[Named]) -> Table {
    let unit = shown.first().map_or("", |(_, one)| one.unit);
    let widest = |(name, one): &Named| {
        let figures = QUANTILES.map(|share| width(&quantile(one, share)));
        name.split(' ').map(width).chain(figures).max().unwrap_or(0)
    };
    let heads = shown.iter().map(|one| Column::text(one.0.clone(), widest(one)));
    let head = Column::left(format!("latency of {unit}"));
    let mut table = Table::new([head].into_iter().chain(heads).collect());
    let mut row = |head: &str, of: &dyn Fn(&CaseLatencies) -> String| {
        let cells = shown.iter().map(|(_, one)| Cell::new(of(one)));
        table.row([Cell::new(head)].into_iter().chain(cells).collect());
    };
    for share in QUANTILES {
        row(share.name(), &|one| quantile(one, share));
    }
    row("longest", &longest);
    table
}

fn is_marked(of: &ringfence_analysis::latency::LatencyQuantile) -> bool {
    QUANTILES.contains(&of.quantile) && of.observed.is_some()
}

// Too few are no figure. Where trials differ, it is what was counted, with the range over trials.
fn quantile(one: &CaseLatencies, share: Quantile) -> String {
    let Some(of) = one.quantiles.iter().find(|of| of.quantile == share) else {
        return NO_FIGURE.into();
    };
    match (&of.ns, &of.observed) {
        (Ok(ns), _) => time_figure(ns).to_string(),
        (Err(_), Some(observed)) => ns_observed(observed).to_string(),
        (Err(reason), None) if reason.short().starts_with("too few") => "too few".into(),
        (Err(reason), None) => reason.short().into(),
    }
}

fn longest(one: &CaseLatencies) -> String {
    one.histogram.most().map_or_else(|| NO_FIGURE.into(), time)
}
