//! Latencies of single operations: a row for each case, then its histogram.

use ringfence_analysis::latency::{CaseLatencies, MissShare};
use ringfence_experiment::histogram::Histogram;
use ringfence_experiment::scale::Scale;

use crate::histogram::{histogram, time};
use crate::numbers::{NO_FIGURE, count, ns_figure, ns_interval, ns_observed, percent};
use crate::print::unknown::Unknown;
use crate::style::Style;
use crate::table::{Cell, Column, Table};
use crate::text::{heading, paragraph};

/// The quantiles in a row, and the highest latency besides.
const QUANTILES: [(f64, &str); 4] =
    [(0.5, "median"), (0.9, "p90"), (0.99, "p99"), (0.999, "p99.9")];

/// What the mark of figures without an interval says.
pub(crate) const MARKED: &str = "~: no interval and no verdict, because trials differ too much or \
                                 are fewer than four; in round brackets \
    the least and the most of any trial";

/// The latencies of all cases that counted any: a table, what its figures mean, and the histograms.
/// Empty where there are none.
pub fn latencies(all: &[CaseLatencies], scale: Option<&Scale>, style: &Style) -> String {
    let mut out = String::new();
    if all.is_empty() {
        return out;
    }
    heading(&mut out, "Latencies", style);
    let few: Vec<(f64, &str)> = QUANTILES.into_iter().filter(|(_, name)| *name != "p90").collect();
    let tables = [
        (true, true, &QUANTILES[..]),
        (false, true, &QUANTILES),
        (true, false, &QUANTILES),
        (false, false, &QUANTILES),
        (false, false, &few),
    ];
    let made = |(whole, intervals, quantiles)| (table(all, whole, intervals, quantiles), intervals);
    let found = tables.into_iter().map(made);
    let found = found.into_iter().find(|(table, _)| table.fits(style));
    out += &found.as_ref().map_or_else(|| list(all, style), |(table, _)| table.render(style));
    out.push('\n');
    if found.is_some_and(|(_, intervals)| !intervals) {
        paragraph(
            &mut out,
            0,
            "a wider terminal, and --json, have the intervals of the quantiles",
            style,
        );
    }
    for note in notes(all, scale) {
        paragraph(&mut out, 0, &note, style);
    }
    for one in all {
        out.push('\n');
        heading(&mut out, &format!("{}: latency of {}", name(one, all), one.unit), style);
        out += &histogram(one.histogram.buckets(), |share| bears(one, share), style);
    }
    out
}

/// The quantiles alone, and what the mark says.
pub(crate) fn quantiles(all: &[CaseLatencies], style: &Style) -> String {
    let Some(first) = all.first() else { return String::new() };
    let mut out = String::new();
    paragraph(&mut out, 0, &format!("Latency of {}:", first.unit), style);
    let tables = [true, false].map(|intervals| table(all, true, intervals, &QUANTILES));
    let found = tables.into_iter().find(|table| table.fits(style));
    out += &found.map_or_else(|| list(all, style), |table| table.render(style));
    if all.iter().any(is_marked) {
        paragraph(&mut out, 0, MARKED, style);
    }
    out
}

fn is_marked(one: &CaseLatencies) -> bool {
    one.quantiles.iter().any(|of| of.observed.is_some())
}

/// A case in a few words: its arm where that is enough, and its role where several are told of.
pub(crate) fn name(one: &CaseLatencies, all: &[CaseLatencies]) -> String {
    let role = all.iter().any(|other| other.role != one.role).then_some(one.role.as_str());
    let same_arm =
        all.iter().filter(|other| (&other.arm, &other.role) == (&one.arm, &one.role)).count() > 1;
    let label = (same_arm && !one.label.is_empty()).then_some(one.label.as_str());
    let arms = all.iter().any(|other| other.arm != one.arm);
    let arm = (arms || label.is_none()).then_some(one.arm.as_str());
    role.into_iter().chain(arm).chain(label).collect::<Vec<_>>().join(" ")
}

fn table(all: &[CaseLatencies], whole: bool, intervals: bool, quantiles: &[(f64, &str)]) -> Table {
    let misses = all.iter().any(|one| one.misses.is_some());
    let counted = whole && all.iter().any(|one| one.counted_misses.is_some());
    let mut columns = vec![Column::text("case", 12)];
    columns.extend(whole.then(|| Column::right("counted")));
    columns.extend(quantiles.iter().map(|(_, name)| Column::right(*name)));
    columns.push(Column::right("max"));
    if misses {
        columns.extend([Column::right("misses"), Column::left("interval")]);
    }
    columns.extend(counted.then(|| Column::right("LLC misses")));
    let mut table = Table::new(columns);
    for one in all {
        let figure = |ns: Option<u64>| Cell::new(ns.map_or(NO_FIGURE.into(), time));
        let mut row = vec![Cell::new(name(one, all))];
        row.extend(whole.then(|| Cell::new(count(one.histogram.total()))));
        row.extend(quantiles.iter().map(|(share, _)| Cell::new(quantile(one, *share, intervals))));
        row.push(figure(one.histogram.most()));
        if misses {
            let share = one.misses.as_ref();
            row.push(Cell::new(share.map_or(NO_FIGURE.into(), |share| percent(share.value))));
            row.push(Cell::new(share.map(interval).unwrap_or_default()));
        }
        let per_unit = one.counted_misses.map_or(NO_FIGURE.into(), |misses| format!("{misses:.3}"));
        row.extend(counted.then(|| Cell::new(per_unit)));
        table.row(row);
    }
    table
}

/// A quantile as it stands in the cell of a table, with its interval where there is room. Where
/// trials differ too much for an interval it is marked, and has its range over trials. Too few
/// latencies are no figure, here as in pictures.
pub(crate) fn quantile(one: &CaseLatencies, share: f64, interval: bool) -> String {
    let of = one.quantiles.iter().find(|of| of.quantile.share() == share);
    if let Some(observed) = of.and_then(|of| of.observed.as_ref()) {
        let figure = ns_observed(observed);
        return if interval { figure.to_string() } else { figure.value };
    }
    match of.map(|of| &of.ns) {
        Some(Ok(ns)) if interval => ns_interval(ns),
        Some(Ok(ns)) => ns_figure(ns).value,
        // For what it is that is too few there is no room.
        Some(Err(reason)) if reason.short().starts_with("too few") => "too few".into(),
        Some(Err(reason)) => reason.short().into(),
        None => NO_FIGURE.into(),
    }
}

/// Whether a quantile has a figure.
pub(crate) fn bears(one: &CaseLatencies, share: f64) -> bool {
    one.quantiles.iter().any(|of| of.quantile.share() == share && of.ns.is_ok())
}

/// For narrow terminals and long names: a few lines for each case.
fn list(all: &[CaseLatencies], style: &Style) -> String {
    let mut out = String::new();
    for one in all {
        paragraph(&mut out, 0, &name(one, all), style);
        let figure = |ns: Option<u64>| ns.map_or(NO_FIGURE.into(), time);
        let named = |(share, name)| format!("{name} {}", quantile(one, share, true));
        let mut parts: Vec<String> = QUANTILES.into_iter().map(named).collect();
        parts.push(format!("max {}", figure(one.histogram.most())));
        let share =
            |share: &MissShare| format!("misses {} {}", percent(share.value), interval(share));
        parts.extend(one.misses.as_ref().map(share));
        paragraph(&mut out, 2, &parts.join(", "), style);
    }
    out
}

/// `[1.2, 3.4] %`; nothing where there is none.
pub(crate) fn interval(share: &MissShare) -> String {
    let (Some(low), Some(high)) = (share.low, share.high) else { return String::new() };
    // Enough digits for the width, two at least where the share is near none.
    let digits = if high - low < 0.01 { 3 } else { 1 };
    format!("[{:.digits$}, {:.digits$}] %", low * 100.0, high * 100.0)
}

// In words where it is few.
fn parts(all: &[CaseLatencies]) -> String {
    match Histogram::coarsest(all.iter().map(|one| &one.histogram)).parts() {
        8 => "eight".into(),
        parts => parts.to_string(),
    }
}

/// What the figures mean and rest on.
pub(crate) fn notes(all: &[CaseLatencies], scale: Option<&Scale>) -> Vec<String> {
    if all.is_empty() {
        return Vec::new();
    }
    let mut notes = vec![format!(
        "latencies are counted in buckets, {} to each power of two; a quantile is interpolated in \
         its bucket, and not given where there \
             are too few latencies; max is the lower end of one",
        parts(all)
    )];
    notes.extend(all.iter().any(is_marked).then(|| MARKED.to_owned()));
    if let Some(scale) = scale {
        notes.push(format!(
            "every latency includes reading the clock, which takes {:.0} ns here (the median of \
             readings with nothing in between)",
            scale.clock_ns
        ));
    }
    let Some(loads) = all.iter().find(|one| one.of_loads) else { return notes };
    if let Some(scale) = scale {
        notes.push(told_apart(scale, all));
    } else {
        notes.push(
            "hits and misses are not told apart, because how long they take here was not measured"
                .into(),
        );
    }
    if let Some(share) = all.iter().find_map(|one| one.misses.filter(|share| share.low.is_some())) {
        let level = percent(share.level);
        notes.push(format!(
            "[lo, hi]: {level} interval over {} trials, and no narrower than that many {} allow",
            share.trials, loads.unit
        ));
    }
    notes.push(match all.iter().any(|one| one.counted_misses.is_some()) {
        true => format!(
            "LLC misses: what the processor counted, per one of the {}, everything that the task \
             did in its windows included",
            loads.unit
        ),
        false => "the processor's own count of misses is absent, because there are no hardware \
                  counters here ('ringfence doctor' says why)"
            .into(),
    });
    notes
}

fn told_apart(scale: &Scale, all: &[CaseLatencies]) -> String {
    let Scale { hit_ns, hit_high_ns, miss_ns, miss_low_ns, .. } = scale;
    let measured = format!(
        "a read of a line just read took {hit_ns:.0} ns (99 of 100 at most {hit_high_ns:.0} ns), \
         one of a line just flushed to memory \
         {miss_ns:.0} ns (99 of 100 at least {miss_low_ns:.0} ns)"
    );
    let from =
        all.iter().find_map(|one| one.misses).map(|share| share.from_ns).or(scale.threshold_ns());
    match from {
        Some(from) => {
            format!("misses: by latency, from {} on: before the measurement {measured}", time(from))
        }
        None => {
            format!(
                "hits and misses cannot be told apart by latency here: before the measurement \
                 {measured}"
            )
        }
    }
}
