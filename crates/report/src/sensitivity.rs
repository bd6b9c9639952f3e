//! What `sensitivity` found: a curve for each victim and polluter, and a sentence about it.

use ringfence_lab::estimate::{NotEstimable, Verdict};
use ringfence_lab::sensitivity::{Curve, Point, Sensitivity};

use crate::numbers::{NO_FIGURE, percent, slowdown_figure};
use crate::style::{Paint, Style};
use crate::table::{Cell, Column, Table};
use crate::text::{heading, paragraph};

/// The longest bar, columns.
const BAR: usize = 24;

/// Renders the curves and what they say.
pub fn sensitivity(found: &Sensitivity, style: &Style) -> String {
    let mut out = String::new();
    // One scale for all, so that curves can be compared.
    let most = found.curves.iter().flat_map(|curve| &curve.points).filter_map(excess).fold(0.0, f64::max);
    for curve in &found.curves {
        heading(&mut out, &format!("{} beside {}", curve.victim, polluter(curve)), style);
        out += &table(curve, most, style).render(style);
        out.push('\n');
    }
    for curve in &found.curves {
        paragraph(&mut out, 0, &sentence(curve), style);
    }
    if let Some(text) = conclusion(found) {
        paragraph(&mut out, 0, &text, style);
    }
    let level = percent(found.confidence);
    let text = format!(
        "slowdown: how much longer the victim takes per unit of work than alone; [lo, hi]: {level} intervals over \
         lives, the full part of a bar reaching up to lo; the sentences rest on wider ones, which hold all together"
    );
    out.push('\n');
    paragraph(&mut out, 0, &text, style);
    out
}

/// What is said of several victims.
pub(crate) fn conclusion(found: &Sensitivity) -> Option<String> {
    let first = found.curves.first()?;
    match &found.most_sensitive {
        Some(victim) => Some(format!("The most sensitive of these is {victim}.")),
        None if found.curves.iter().any(|curve| curve.victim != first.victim) => {
            Some("None of these was seen to be sensitive.".into())
        }
        None => None,
    }
}

/// The polluter in words.
pub(crate) fn polluter(curve: &Curve) -> &'static str {
    match curve.polluter.as_str() {
        "write" => "plain stores",
        _ => "a pointer chase",
    }
}

fn table(curve: &Curve, most: f64, style: &Style) -> Table {
    let mut table = Table::new(vec![
        Column::right("footprint"),
        Column::right("slowdown"),
        Column::left("interval"),
        Column::left(""),
    ]);
    for point in &curve.points {
        let paint = match point.finding.verdict {
            Verdict::Slower => Some(Paint::Bad),
            Verdict::Faster | Verdict::NoChangeLargerThanMargin => Some(Paint::Good),
            _ => None,
        };
        let (value, interval) = match &point.finding.slowdown {
            Some(slowdown) => {
                let figure = slowdown_figure(slowdown);
                (figure.value, figure.interval)
            }
            None if stalled(point) => ("stands still".into(), String::new()),
            None => (NO_FIGURE.into(), String::new()),
        };
        let value = paint.map_or_else(|| Cell::new(&value), |paint| Cell::painted(&value, paint));
        table.row(vec![
            Cell::new(point.footprint.to_string()),
            value,
            Cell::new(interval),
            Cell::painted(bar(point, most, style), Paint::Faint),
        ]);
    }
    table
}

/// Beside the polluter, but not alone.
pub(crate) fn stalled(point: &Point) -> bool {
    matches!(point.finding.verdict, Verdict::NotEstimable(NotEstimable::Stalled { baseline: 0, .. }))
}

// How much longer it takes, where it does.
fn excess(point: &Point) -> Option<f64> {
    point.finding.slowdown.map(|slowdown| (slowdown.value - 1.0).max(0.0))
}

// As far as the lower bound it is certain, from there to the figure itself it is not.
fn bar(point: &Point, most: f64, style: &Style) -> String {
    let Some(slowdown) = point.finding.slowdown.filter(|_| most > 0.0) else { return String::new() };
    let columns = |value: f64| ((value - 1.0).max(0.0) / most * BAR as f64).round() as usize;
    let (certain, all) = (columns(slowdown.low), columns(slowdown.value));
    let [full, light] = if style.unicode { ["█", "░"] } else { ["#", "-"] };
    full.repeat(certain) + &light.repeat(all.saturating_sub(certain))
}

/// What a curve says.
pub(crate) fn sentence(curve: &Curve) -> String {
    let subject = format!("{} beside {}", curve.victim, polluter(curve));
    if let Some(point) = curve.points.iter().find(|point| stalled(point)) {
        return format!("{subject}: it stands still at {}, for whole lives.", point.footprint);
    }
    let worst = curve.worst_point().and_then(|point| Some((point.footprint, point.finding.slowdown?)));
    match (worst, curve.from, curve.at_most()) {
        (Some((footprint, slowdown)), Some(from), _) if from == footprint => {
            format!("{subject}: slower from {from} on, most there: {}.", slowdown_figure(&slowdown))
        }
        (Some((footprint, slowdown)), Some(from), _) => {
            format!("{subject}: slower from {from} on, most at {footprint}: {}.", slowdown_figure(&slowdown))
        }
        (Some((footprint, slowdown)), None, _) => {
            let figure = slowdown_figure(&slowdown);
            format!(
                "{subject}: slower at some footprints, most at {footprint}: {figure}; not at the largest."
            )
        }
        (None, _, Some(most)) => {
            format!(
                "{subject}: no footprint was seen to slow it down; these figures leave {} possible.",
                share(most)
            )
        }
        (None, _, None) => format!("{subject}: not every footprint has a figure."),
    }
}

/// A slowdown without an interval.
pub(crate) fn share(slowdown: f64) -> String {
    if slowdown >= 2.0 { format!("{slowdown:.1}x") } else { format!("{:+.1} %", (slowdown - 1.0) * 100.0) }
}
