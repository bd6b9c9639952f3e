//! Quantiles of latencies on an axis on which each power of ten is as wide as the last: a line for
//! each case, and a point with its interval where there is a figure.

use std::collections::BTreeSet;

use maud::{Markup, html};
use ringfence_analysis::latency::{CaseLatencies, LatencyQuantile};
use serde::Serialize;

use crate::histogram::time;
use crate::html::figure::{Chart, Figure, LOOKS, Tip, legend};
use crate::html::table::{Align, table};
use crate::html::{Digest, Section};
use crate::latencies::page::labelled;
use crate::latencies::text::{name, quantile};
use crate::numbers::{NO_FIGURE, count, ns_interval, percent};

#[derive(Debug, Serialize)]
pub(crate) struct Drawn {
    lines: Vec<Line>,
    points: Vec<Point>,
}

#[derive(Debug, Serialize)]
struct Line {
    color: &'static str,
    /// How many in one are longer, and ns; what a figure bears, then the rest.
    borne: Vec<[f64; 2]>,
    rest: Vec<[f64; 2]>,
}

#[derive(Debug, Serialize)]
struct Point {
    line: usize,
    shape: &'static str,
    one_in: u64,
    /// Value, lower and upper bound, ns.
    figure: [f64; 3],
    /// Whether figures and verdicts are about this quantile.
    chosen: bool,
    tip: Tip,
}

/// A figure for each dataset and each role that counted latencies; nothing where none did.
pub(crate) fn section(digests: &[&Digest]) -> Option<Section> {
    let several = digests.len() > 1;
    let figures: Vec<Markup> = digests.iter().flat_map(|digest| figures(digest, several)).collect();
    let body = html! { div class="row one" { @for figure in &figures { (figure) } } };
    let title = "Quantiles of latencies".into();
    (!figures.is_empty()).then_some(Section { id: "quantiles", title, body })
}

fn figures(digest: &Digest, several: bool) -> Vec<Markup> {
    let all = &digest.findings.latencies;
    let metric = digest.findings.plan.experiment.metric.as_str();
    // The metric's comes first.
    let roles: BTreeSet<(bool, &str)> =
        all.iter().map(|one| (one.role != metric, one.role.as_str())).collect();
    let of_role = |(_, role): &(bool, &str)| {
        let own: Vec<CaseLatencies> =
            all.iter().filter(|one| one.role == *role).map(|one| labelled(one, digest)).collect();
        let mut title = format!("How long {} take", own[0].unit);
        if roles.len() > 1 {
            title += &format!(", {role}");
        }
        if several {
            title += &format!(", {}", digest.findings.plan.experiment.name);
        }
        figure(digest, &title, &own)
    };
    roles.iter().filter_map(of_role).collect()
}

fn figure(digest: &Digest, title: &str, own: &[CaseLatencies]) -> Option<Markup> {
    let plan = &digest.findings.plan;
    let chosen = plan
        .experiment
        .measure
        .quantity
        .quantile()
        .filter(|_| own[0].role == plan.experiment.metric);
    if own.len() > LOOKS.len() {
        return dots(title, own);
    }
    let look = |place: usize| LOOKS[place];
    let lines: Vec<Line> =
        own.iter().enumerate().map(|(place, one)| line(one, look(place).0)).collect();
    if lines.iter().all(|line| line.borne.is_empty() && line.rest.is_empty()) {
        return None;
    }
    let point = |place: usize, of: &LatencyQuantile| {
        let ns = of.ns.as_ref().ok()?;
        let one = &own[place];
        let tip = Tip::new(format!("{}, {}", name(one, own), of.quantile))
            .with(of.quantile.name(), ns_interval(ns))
            .with("of", format!("{} {}", count(one.histogram.total()), one.unit));
        Some(Point {
            line: place,
            shape: look(place).1,
            one_in: of.quantile.one_in(),
            figure: [ns.value, ns.low, ns.high].map(short),
            chosen: chosen == Some(of.quantile),
            tip,
        })
    };
    let of_case = |(place, one): (usize, &CaseLatencies)| -> Vec<Point> {
        one.quantiles.iter().filter_map(|of| point(place, of)).collect()
    };
    let points: Vec<Point> = own.iter().enumerate().flat_map(of_case).collect();
    let explanation = explanation(own, &lines, &points);
    let entries: Vec<(&str, &str, String)> = own
        .iter()
        .enumerate()
        .map(|(place, one)| (look(place).1, look(place).0, name(one, own)))
        .collect();
    let entries = entries.iter().map(|(shape, color, name)| (*shape, *color, name.as_str()));
    let numbers = numbers(title, own);
    let chart = Chart::new("quantiles", Drawn { lines, points });
    let figure = Figure {
        title,
        explanation: &explanation,
        chart: &chart,
        height: 360,
        legend: legend(entries),
        table: numbers,
    };
    Some(figure.render())
}

/// Of more cases than there are colours: a row for each, with a dot for each quantile.
#[derive(Debug, Serialize)]
struct Dots {
    rows: Vec<DotRow>,
}

#[derive(Debug, Serialize)]
struct DotRow {
    name: String,
    dots: Vec<Dot>,
}

#[derive(Debug, Serialize)]
struct Dot {
    shape: &'static str,
    color: &'static str,
    ns: f64,
    /// Trials differ too much for an interval.
    faint: bool,
    tip: Tip,
}

/// What a row has dots of: a share, and how it looks; then the longest.
const SHARES: [(f64, &str, (&str, &str)); 3] =
    [(0.5, "p50", LOOKS[0]), (0.9, "p90", LOOKS[2]), (0.99, "p99", LOOKS[3])];
const LONGEST: (&str, &str) = ("bad", "triangle");

fn dots(title: &str, own: &[CaseLatencies]) -> Option<Markup> {
    let row = |one: &CaseLatencies| {
        let name = name(one, own);
        let quantiles = SHARES.iter().filter_map(|(share, label, (color, shape))| {
            let of = one.quantiles.iter().find(|of| of.quantile.share() == *share)?;
            let observed = of.observed.as_ref().map(|observed| observed.value);
            let figure = of.ns.as_ref().ok().map(|ns| ns.value);
            let tip =
                Tip::new(format!("{name}, {label}")).with(*label, quantile(one, *share, true));
            Some(Dot {
                shape,
                color,
                ns: short(figure.or(observed)?),
                faint: figure.is_none(),
                tip,
            })
        });
        let mut dots: Vec<Dot> = quantiles.collect();
        // The lower end of a bucket, below which a quantile within it may not seem to lie.
        let least = dots.iter().map(|dot| dot.ns).fold(1.0, f64::max);
        dots.extend(one.histogram.most().map(|most| Dot {
            shape: LONGEST.1,
            color: LONGEST.0,
            ns: least.max(most as f64),
            faint: false,
            tip: Tip::new(format!("{name}, longest")).with("longest", time(most)),
        }));
        DotRow { name, dots }
    };
    let rows: Vec<DotRow> = own.iter().map(row).filter(|row| !row.dots.is_empty()).collect();
    if rows.is_empty() {
        return None;
    }
    let entries = SHARES.iter().map(|(_, label, (color, shape))| (*shape, *color, *label));
    let height = 44 + 24 * rows.len() as u32;
    let explanation = format!(
        "Of 100 {}, 99 take at most as long as p99. The axis is logarithmic; a pale dot is of \
         trials that differ too much for an interval.",
        own[0].unit
    );
    let figure = Figure {
        title,
        explanation: &explanation,
        chart: &Chart::new("dots", Dots { rows }),
        height,
        legend: legend(entries.chain([(LONGEST.1, LONGEST.0, "longest")])),
        table: numbers(title, own),
    };
    Some(figure.render())
}

fn line(one: &CaseLatencies, color: &'static str) -> Line {
    let curve = one.curve();
    let ends = |borne: bool| curve.iter().filter(move |point| point.borne == borne);
    let place =
        |point: &ringfence_analysis::latency::CurvePoint| [short(point.one_in), short(point.ns)];
    let borne: Vec<[f64; 2]> = ends(true).map(place).collect();
    // Both parts meet.
    let rest: Vec<[f64; 2]> = match ends(false).next() {
        Some(_) => borne.last().copied().into_iter().chain(ends(false).map(place)).collect(),
        None => Vec::new(),
    };
    Line { color, borne, rest }
}

fn explanation(own: &[CaseLatencies], lines: &[Line], points: &[Point]) -> String {
    let mut text = format!("Of 100 {}, 99 take at most as long as p99.", own[0].unit);
    let level = own
        .iter()
        .flat_map(|one| &one.quantiles)
        .find_map(|of| of.ns.as_ref().ok().map(|ns| ns.level));
    if let Some(level) = level {
        text += &format!(
            " Points are figures with their {} intervals, each of its case alone",
            percent(level)
        );
        text += match points.iter().any(|point| point.chosen) {
            true => "; the larger ones are those that verdicts are about.",
            false => ".",
        };
    }
    if lines.iter().any(|line| !line.rest.is_empty()) {
        text += " A line is dashed beyond the highest quantile that has a figure.";
    }
    text += " It ends where fewer than ten are longer.";
    text
}

fn numbers(title: &str, own: &[CaseLatencies]) -> Markup {
    let names: Vec<&str> = own[0].quantiles.iter().map(|of| of.quantile.name()).collect();
    let mut heads = vec![("case", Align::Left), ("counted", Align::Right)];
    heads.extend(names.iter().chain(&["max"]).map(|name| (*name, Align::Right)));
    let row = |one: &CaseLatencies| {
        let mut row = vec![name(one, own), count(one.histogram.total())];
        row.extend(one.quantiles.iter().map(|of| quantile(one, of.quantile.share(), true)));
        row.push(one.histogram.most().map_or(NO_FIGURE.into(), time));
        row
    };
    table(title, &heads, &own.iter().map(row).collect::<Vec<_>>())
}

// Four digits are more than a picture shows.
fn short(value: f64) -> f64 {
    let unit = 10f64.powf(value.max(f64::MIN_POSITIVE).log10().floor() - 3.0);
    let rounded = (value / unit).round() * unit;
    // Without the digits that the unit's own rounding brings in.
    format!("{rounded:.3}").parse().unwrap_or(value)
}
