//! Sensitivity: the slowdown of a victim over the footprint of the program that pollutes its cache.

use ringfence_analysis::estimate::Verdict;
use ringfence_studies::sensitivity::{Curve, Point, Sensitivity};
use serde::Serialize;

use crate::experiment::page::slowdowns::verdict;
use crate::html::figure::{Chart, Figure, Tip, legend};
use crate::html::table::{Align, table};
use crate::html::{Answer, Card, Digest, Section};
use crate::numbers;
use crate::print::unknown::Unknown;
use crate::sensitivity::text::{conclusion, lacking, polluter, sentence, stalled};
use crate::text::clean;

/// In this order; many more curves than these cannot be told apart.
const COLORS: [&str; 7] = ["clwb", "clflush", "nt", "msync", "clflushopt", "alu", "other"];
/// Cards on the first screen.
const MOST_CARDS: usize = 6;

/// What the script draws.
#[derive(Debug, Serialize)]
pub(crate) struct Drawn {
    axis: &'static str,
    curves: Vec<DrawnCurve>,
    /// Sizes of caches: name and bytes.
    marks: Vec<(String, u64)>,
}

#[derive(Debug, Serialize)]
struct DrawnCurve {
    name: String,
    color: &'static str,
    points: Vec<DrawnPoint>,
}

#[derive(Debug, Serialize)]
struct DrawnPoint {
    /// The footprint, bytes.
    x: u64,
    /// Value, lower and upper bound.
    figure: [f64; 3],
    /// Whether the interval shows a change.
    said: bool,
    tip: Tip,
}

/// The first screen.
pub(crate) fn answer(found: &Sensitivity, digest: &Digest) -> Answer {
    let mut said: Vec<String> = found.curves.iter().map(|curve| clean(&sentence(curve))).collect();
    let headline = match conclusion(found) {
        Some(conclusion) => clean(&conclusion),
        None if said.is_empty() => "No case was measured.".into(),
        None => said.remove(0),
    };
    let question = digest.findings.plan.experiment.question.clone();
    Answer {
        question: question.unwrap_or_else(|| digest.findings.plan.experiment.name.clone()),
        headline,
        cards: found.curves.iter().enumerate().take(MOST_CARDS).filter_map(card).collect(),
        sentences: said,
        figure: figure(found, digest),
        ..Answer::default()
    }
}

fn card((number, curve): (usize, &Curve)) -> Option<Card> {
    let (value, note) =
        match (curve.points.iter().find(|point| stalled(point)), curve.worst_point()) {
            (Some(point), _) => ("stands still".into(), format!("at {}", point.footprint)),
            (None, Some(point)) => {
                let figure = numbers::slowdown_figure(point.finding.slowdown.as_ref()?);
                let from =
                    curve.from.map_or(String::new(), |from| format!("; slower from {from} on"));
                (figure.value, format!("{} at {}{from}", figure.interval, point.footprint))
            }
            (None, None) => match (curve.at_most(), curve.missing()) {
                (Some(most), _) => {
                    let value =
                        if curve.perhaps.is_empty() { "none seen" } else { "none for certain" };
                    (value.into(), format!("up to {} cannot be ruled out", numbers::change(most)))
                }
                (None, Some((_, reason))) => (reason.short().into(), reason.told()),
                (None, None) => (numbers::NO_FIGURE.into(), "nothing was measured".into()),
            },
        };
    Some(Card {
        label: name(curve),
        value,
        note,
        color: Some(color(number).into()),
        ..Card::default()
    })
}

/// The curves; none where no point has a figure.
pub(crate) fn section(found: &Sensitivity, digest: &Digest) -> Option<Section> {
    let body = figure(found, digest)?;
    Some(Section { id: "sensitivity", title: "Sensitivity".into(), body })
}

fn name(curve: &Curve) -> String {
    clean(&format!("{} beside {}", curve.victim, polluter(curve)))
}

fn color(number: usize) -> &'static str {
    COLORS[number % COLORS.len()]
}

fn figure(found: &Sensitivity, digest: &Digest) -> Option<maud::Markup> {
    let curves: Vec<DrawnCurve> = found
        .curves
        .iter()
        .enumerate()
        .map(|(number, curve)| DrawnCurve {
            name: name(curve),
            color: color(number),
            points: curve.points.iter().filter_map(|point| drawn(curve, point)).collect(),
        })
        .collect();
    if curves.iter().all(|curve| curve.points.is_empty()) {
        return None;
    }
    let names: Vec<(&str, String)> =
        curves.iter().map(|curve| (curve.color, curve.name.clone())).collect();
    let entries = names.iter().map(|(color, name)| ("dot", *color, name.as_str()));
    let level = numbers::percent(found.confidence);
    let explanation = format!(
        "How much longer the victim takes per unit of work than alone. Bands and bars are {level} \
         intervals over trials, with an arrow where they go on beyond the frame; full points are \
         those whose interval shows a change."
    );
    let chart = Chart::new(
        "sensitivity",
        Drawn { axis: "footprint of the polluter", curves, marks: caches(digest) },
    );
    let lines: Vec<Vec<String>> = found
        .curves
        .iter()
        .flat_map(|curve| curve.points.iter().map(move |point| line(curve, point)))
        .collect();
    let heads = [
        ("curve", Align::Left),
        ("footprint", Align::Right),
        ("slowdown", Align::Right),
        ("verdict", Align::Left),
    ];
    let title = "Slowdown over the polluter's footprint";
    let figure = Figure {
        title,
        explanation: &explanation,
        chart: &chart,
        height: 400,
        legend: legend(entries),
        table: table(title, &heads, &lines),
    };
    Some(figure.render())
}

fn drawn(curve: &Curve, point: &Point) -> Option<DrawnPoint> {
    let slowdown = point.finding.slowdown?;
    let title = format!("{}, {}", name(curve), point.footprint);
    Some(DrawnPoint {
        x: point.footprint.0,
        figure: [slowdown.value, slowdown.low, slowdown.high],
        said: matches!(point.finding.verdict, Verdict::Slower | Verdict::Faster),
        tip: Tip::new(title)
            .with("slowdown", numbers::slowdown(&slowdown))
            .with("verdict", verdict(&point.finding))
            .with("trials", slowdown.trials.to_string()),
    })
}

fn line(curve: &Curve, point: &Point) -> Vec<String> {
    let slowdown = match &point.finding.slowdown {
        Some(slowdown) => numbers::slowdown(slowdown),
        None => lacking(point).into(),
    };
    let said = match point.finding.verdict {
        Verdict::NotEstimable(reason) => reason.told(),
        _ => verdict(&point.finding),
    };
    vec![name(curve), point.footprint.to_string(), slowdown, said]
}

// The caches of the CPU that the victim ran on.
fn caches(digest: &Digest) -> Vec<(String, u64)> {
    let experiment = &digest.findings.plan.experiment;
    let victim = experiment.roles.iter().position(|role| role.name == experiment.metric);
    let cpu = victim.and_then(|role| digest.findings.plan.placed.cpus.get(role)?.first().copied());
    let (Some(cpu), Some(machine)) = (cpu, &digest.machine) else { return Vec::new() };
    let (l2, last) = (machine.topology.l2_size(cpu), machine.topology.llc_size(cpu));
    let mut marks: Vec<(String, u64)> =
        l2.map(|size| (format!("L2 {size}"), size.0)).into_iter().collect();
    marks.extend(last.filter(|_| l2 != last).map(|size| (format!("last level {size}"), size.0)));
    marks
}
