//! The experiment over time.

use maud::{Markup, html};
use ringfence_analysis::timeline::{OfTrial, Point, Timeline};
use ringfence_experiment::class::Class;
use ringfence_experiment::plan::Plan;
use serde::Serialize;

use crate::experiment::cases::words;
use crate::experiment::too_long::too_long_in;
use crate::html::figure::{Chart, Figure, legend};
use crate::html::table::{Align, table};
use crate::html::{Digest, Section};
use crate::numbers;
use crate::text::plural;

#[derive(Debug, Serialize)]
pub(crate) struct Drawn {
    /// The cases' names, to which points refer.
    cases: Vec<String>,
    classes: Vec<Class>,
    /// Start in s, least, median, greatest, class, trial, windows, case (-1 for several), round
    /// trip (or -1).
    points: Vec<[f64; 9]>,
}

const CLASSES: [Class; 5] =
    [Class::Sharing, Class::Apart, Class::Unclear, Class::Mixed, Class::Unprobed];

/// A strip for each dataset; none where nothing was measured.
pub(crate) fn section(digests: &[&Digest]) -> Option<Section> {
    let with_points: Vec<&&Digest> =
        digests.iter().filter(|digest| !digest.findings.timeline.points.is_empty()).collect();
    if with_points.is_empty() {
        return None;
    }
    let body = html! {
        p {
            "Each window's time per unit of work over the median of its own case: 1x is the usual \
             speed, drift shows as a slope, \
             and a machine that switches between two states as two levels. Colours show the class, \
             by the round trip between \
             the CPUs in use. Hold Ctrl and scroll over a figure to zoom."
        }
        div class={ "row" @if with_points.len() == 1 { " one" } } {
            @for digest in &with_points { (figure(digest)) }
        }
    };
    Some(Section { id: "timeline", title: "Over time".into(), body })
}

fn figure(digest: &Digest) -> Markup {
    let Timeline { windows, stalled, per_point, points } = &digest.findings.timeline;
    let present: Vec<Class> = CLASSES
        .into_iter()
        .filter(|class| points.iter().any(|point| point.class == *class))
        .collect();
    let chart = Chart::new(
        "time",
        Drawn {
            cases: (0..digest.findings.plan.cases.len())
                .map(|case| words(&digest.findings.plan, case))
                .collect(),
            classes: CLASSES.into(),
            points: points.iter().map(drawn).collect(),
        },
    );
    let count = numbers::count(*windows as u64);
    let mut explanation = match per_point {
        1 => format!("{count} windows, a point each."),
        several => format!(
            "{count} windows; a point is the median of {several} in a row, its bar reaches from \
             the least to the greatest."
        ),
    };
    if *stalled > 0 {
        explanation += &format!(" Not drawn: {} without any work.", plural(*stalled, "window"));
    }
    if let Some(missing) = too_long_in(&digest.findings.results) {
        explanation += &format!(" {missing}");
    }
    let names: Vec<(&str, String)> =
        present.iter().map(|class| (color(*class), class.to_string())).collect();
    Figure {
        title: &digest.findings.plan.experiment.name,
        explanation: &explanation,
        chart: &chart,
        height: 190,
        legend: legend(names.iter().map(|(color, name)| ("dot", *color, name.as_str()))),
        table: by_trial(&digest.findings.plan, &digest.findings.timeline),
    }
    .render()
}

fn color(class: Class) -> &'static str {
    match class {
        Class::Sharing => "sharing",
        Class::Apart => "apart",
        Class::Unclear => "unclear",
        Class::Mixed => "mixed",
        Class::Unprobed => "unprobed",
    }
}

fn drawn(point: &Point) -> [f64; 9] {
    // As many digits as can be seen.
    let round = |x: f64, digits: i32| (x * 10f64.powi(digits)).round() / 10f64.powi(digits);
    let class = CLASSES.iter().position(|class| *class == point.class).unwrap_or(0);
    [
        round(point.at_s, 3),
        round(point.least, 4),
        round(point.median, 4),
        round(point.greatest, 4),
        class as f64,
        f64::from(point.trial),
        point.windows as f64,
        point.case.map_or(-1.0, |case| case as f64),
        point.ping_ns.map_or(-1.0, |ns| round(ns, 1)),
    ]
}

// Windows by trial: a row for each would be longer than the page.
fn by_trial(plan: &Plan, timeline: &Timeline) -> Markup {
    const MOST: usize = 60;
    let rows = timeline.by_trial();
    let heads = ["trial", "from", "windows", "least", "median", "greatest"]
        .map(|head| (head, Align::Right));
    let line = |row: &OfTrial| {
        let times = [row.least, row.median, row.greatest].map(|time| format!("{time:.3}"));
        let first = [row.trial.to_string(), format!("{:.1} s", row.at_s), row.windows.to_string()];
        first.into_iter().chain(times).collect()
    };
    let lines: Vec<Vec<String>> = rows.iter().take(MOST).map(line).collect();
    let more = rows.len().saturating_sub(MOST);
    html! {
        p class="note" { "By the trial that a point begins in; figures are times per unit \
                          of " (plan.experiment.metric) " over the case's median." }
        (table("Windows by trial", &heads, &lines))
        @if more > 0 { p class="note" { "and " (plural(more, "more trial")) } }
    }
}
