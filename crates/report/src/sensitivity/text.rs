//! What `sensitivity` found: a curve for each victim and polluter, and a sentence about it.

use ringfence_analysis::estimate::{Interval, NotEstimable, Verdict};
use ringfence_machine::units::Bytes;
use ringfence_studies::sensitivity::{Curve, Point, Ranking, Sensitivity};

use crate::experiment::short::grid::{self, Entry};
use crate::experiment::short::names::Name;
use crate::numbers::{NO_FIGURE, change, percent, slowdown_figure};
use crate::print::unknown::{Unknown, WouldSettle};
use crate::style::{Paint, Style};
use crate::survey::text::CHANCE;
use crate::table::{Cell, Column, Table};
use crate::text::{heading, listed, paragraph};

/// The longest bar, columns.
const BAR: usize = 24;

/// Curves whose sentences are printed in short.
const MOST_SENTENCES: usize = 3;

/// Renders the curves and what they say; in short the answer comes first.
pub fn sensitivity(found: &Sensitivity, style: &Style) -> String {
    if style.details { details(found, style) } else { short(found, style) }
}

fn short(found: &Sensitivity, style: &Style) -> String {
    let mut out = String::new();
    let few = found.curves.len() <= MOST_SENTENCES;
    let sentences = found.curves.iter().filter(|_| few).map(sentence);
    for (number, text) in overall(found).into_iter().chain(sentences).enumerate() {
        match number {
            0 => heading(&mut out, &text, style),
            _ => paragraph(&mut out, 0, &text, style),
        }
    }
    out.push('\n');
    match &found.curves[..] {
        [curve] => out += &table(curve, most(found), style).render(style),
        curves => {
            let (table, more) = grid::table(&entries(curves), ("footprint", "slowdown"), style);
            out += &table;
            if more > 0 {
                paragraph(&mut out, 0, &format!("{more} more figures: -v prints them."), style);
            }
        }
    }
    let level = percent(found.confidence);
    let text = format!(
        "[lo, hi]: {level} intervals. The sentences rest on wider ones, which hold for all at once."
    );
    paragraph(&mut out, 0, &text, style);
    out
}

// The largest excess: one scale for all, so that curves can be compared.
fn most(found: &Sensitivity) -> f64 {
    found.curves.iter().flat_map(|curve| &curve.points).filter_map(excess).fold(0.0, f64::max)
}

// What is said of several victims, without a number of trials.
fn overall(found: &Sensitivity) -> Option<String> {
    match found.ranking.as_ref()? {
        Ranking::NotKnown { among, at_most: Some(most), .. } => Some(format!(
            "Which of these is the most sensitive is too noisy to tell: {} may be, by up to {}.",
            listed(among, "or"),
            change(*most)
        )),
        _ => conclusion(found),
    }
}

fn entries(curves: &[Curve]) -> Vec<Entry> {
    let one = |curve: &Curve, point: &Point| Entry {
        name: Name {
            row: point.footprint.to_string(),
            column: format!("{} next to {}", curve.victim, polluter(curve)),
        },
        text: point.finding.slowdown.as_ref().map_or_else(
            || lacking(point).into(),
            |slowdown| slowdown_figure(slowdown).to_string(),
        ),
        paint: paint(point),
    };
    curves
        .iter()
        .flat_map(|curve| curve.points.iter().map(move |point| one(curve, point)))
        .collect()
}

fn paint(point: &Point) -> Option<Paint> {
    match point.finding.verdict {
        Verdict::Slower => Some(Paint::Bad),
        Verdict::Faster | Verdict::NoChangeLargerThanMargin => Some(Paint::Good),
        _ => None,
    }
}

fn details(found: &Sensitivity, style: &Style) -> String {
    let mut out = String::new();
    let most = most(found);
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
        "slowdown: how much longer the victim takes per unit of work than alone; [lo, hi]: {level} \
         intervals over \
         trials; the full part of a bar ends at lo; the sentences rest on wider intervals, which \
         hold for all at once"
    );
    out.push('\n');
    paragraph(&mut out, 0, &text, style);
    out
}

/// What is said of several victims.
pub(crate) fn conclusion(found: &Sensitivity) -> Option<String> {
    Some(match found.ranking.as_ref()? {
        Ranking::Most { victim, at_least, others_at_most } => format!(
            "The most sensitive of these is {victim}: at its worst it is slowed by {} at least, \
             the others by {} at most.",
            change(*at_least),
            change(*others_at_most)
        ),
        Ranking::NotKnown { among, at_most, trials_needed } => {
            let which = format!(
                "Which of these is the most sensitive is not known: {}",
                listed(among, "or")
            );
            match at_most {
                Some(most) => {
                    format!(
                        "{which} may be, by up to {}; {}.",
                        change(*most),
                        WouldSettle(*trials_needed)
                    )
                }
                None => {
                    format!("{which} may be, and not every footprint has a figure{}.", why(found))
                }
            }
        }
        Ranking::NoneSeen { at_most: Some(most) } => {
            format!(
                "None of these was seen to be sensitive; up to {} cannot be ruled out.",
                change(*most)
            )
        }
        Ranking::NoneSeen { at_most: None } => {
            format!(
                "Which of these is sensitive is not known: not every footprint has a figure{}.",
                why(found)
            )
        }
    })
}

// The first reason why a figure is missing.
fn why(found: &Sensitivity) -> String {
    let missing = found.curves.iter().find_map(Curve::missing);
    missing.map_or_else(String::new, |(_, reason)| format!(" ({})", reason.told()))
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
        let paint = paint(point);
        let (value, interval) = match &point.finding.slowdown {
            Some(slowdown) => {
                let figure = slowdown_figure(slowdown);
                (figure.value, figure.interval)
            }
            None => (lacking(point).into(), String::new()),
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
    matches!(
        point.finding.verdict,
        Verdict::NotEstimable(NotEstimable::Stalled { baseline: 0, .. })
    )
}

// How much longer it takes, where it does.
fn excess(point: &Point) -> Option<f64> {
    point.finding.slowdown.map(|slowdown| (slowdown.value - 1.0).max(0.0))
}

// As far as the lower bound it is certain, from there to the figure itself it is not.
fn bar(point: &Point, most: f64, style: &Style) -> String {
    let Some(slowdown) = point.finding.slowdown.filter(|_| most > 0.0) else {
        return String::new();
    };
    let columns = |value: f64| ((value - 1.0).max(0.0) / most * BAR as f64).round() as usize;
    let (certain, all) = (columns(slowdown.low), columns(slowdown.value));
    let [full, light] = if style.unicode { ["█", "░"] } else { ["#", "-"] };
    full.repeat(certain) + &light.repeat(all.saturating_sub(certain))
}

/// What a curve says.
pub(crate) fn sentence(curve: &Curve) -> String {
    let subject = format!("{} beside {}", curve.victim, polluter(curve));
    if let Some(point) = curve.points.iter().find(|point| stalled(point)) {
        return format!(
            "{subject}: it came to a standstill at {}, for whole trials.",
            point.footprint
        );
    }
    let worst =
        curve.worst_point().and_then(|point| Some((point.footprint, point.finding.slowdown?)));
    let at = |footprint: Bytes, slowdown: &Interval| {
        if curve.from == Some(footprint) || curve.points.len() == 1 {
            format!("there by {}", slowdown_figure(slowdown))
        } else {
            format!("most at {footprint}, by {}", slowdown_figure(slowdown))
        }
    };
    let mut said = match (worst, curve.from) {
        (Some((footprint, slowdown)), Some(from)) => {
            format!("slower from {from} on, {}.", at(footprint, &slowdown))
        }
        (Some((footprint, slowdown)), None) => format!(
            "slower at some footprints, {}; not for certain at the largest.",
            at(footprint, &slowdown)
        ),
        (None, _) => match (curve.at_most(), &curve.perhaps[..]) {
            (Some(most), []) => {
                format!(
                    "no footprint was seen to slow it down; up to {} cannot be ruled out.",
                    change(most)
                )
            }
            (Some(most), _) => {
                format!(
                    "no footprint slows it down for certain; up to {} cannot be ruled out.",
                    change(most)
                )
            }
            (None, _) => "whether it is slowed down is not known.".into(),
        },
    };
    if !curve.perhaps.is_empty() {
        let sizes: Vec<String> = curve.perhaps.iter().map(ToString::to_string).collect();
        said += &format!(" Perhaps slower at {}, {CHANCE}.", sizes.join(", "));
    }
    if let Some((footprint, reason)) = curve.missing() {
        let alone = curve
            .points
            .iter()
            .any(|point| point.footprint == footprint && point.finding.slowdown.is_some());
        let what = if alone { "No figure once all are taken into account" } else { "No figure" };
        said += &format!(" {what} at {footprint}: {}.", reason.told());
    }
    format!("{subject}: {said}")
}

/// What stands where a figure would.
pub(crate) fn lacking(point: &Point) -> &'static str {
    match point.finding.verdict {
        Verdict::NotEstimable(reason) => reason.short(),
        _ => NO_FIGURE,
    }
}
