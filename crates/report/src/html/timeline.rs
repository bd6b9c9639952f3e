//! The experiment over time.

use maud::{Markup, html};
use ringfence_analysis::timeline::{Point, Timeline};
use ringfence_experiment::class::Class;
use ringfence_experiment::plan::Plan;
use serde::Serialize;

use super::figure::{Chart, Figure, legend};
use super::table::{Align, table};
use super::{Digest, Section};
use crate::cases::words;
use crate::numbers;
use crate::text::plural;

#[derive(Debug, Serialize)]
pub(super) struct Drawn {
    /// The cases' names, to which points refer.
    cases: Vec<String>,
    classes: Vec<Class>,
    /// Start in s, least, median, greatest, class, life, windows, case (-1 for several), round trip (or -1).
    points: Vec<[f64; 9]>,
}

const CLASSES: [Class; 5] = [Class::Sharing, Class::Apart, Class::Unclear, Class::Mixed, Class::Unprobed];

/// A strip for each dataset; none where nothing was measured.
pub(super) fn section(digests: &[&Digest]) -> Option<Section> {
    let with_points: Vec<&&Digest> =
        digests.iter().filter(|digest| !digest.findings.timeline.points.is_empty()).collect();
    if with_points.is_empty() {
        return None;
    }
    let body = html! {
        p {
            "Each window's time per unit of work over the median of its own case: 1x is as usual, drift is a slope, \
             a machine that toggles has two levels. Colours are the classes by ping-pong between the CPUs in use. Hold Ctrl and scroll over a figure to zoom."
        }
        div class={ "row" @if with_points.len() == 1 { " one" } } {
            @for digest in &with_points { (figure(digest)) }
        }
    };
    Some(Section { id: "timeline", title: "Over time".into(), body })
}

fn figure(digest: &Digest) -> Markup {
    let Timeline { windows, stalled, per_point, points } = &digest.findings.timeline;
    let present: Vec<Class> =
        CLASSES.into_iter().filter(|class| points.iter().any(|point| point.class == *class)).collect();
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
            "{count} windows; a point is the median of {several} in a row, its bar their least and greatest."
        ),
    };
    if *stalled > 0 {
        explanation += &format!(" {} without any work not drawn.", plural(*stalled, "window"));
    }
    let names: Vec<(&str, String)> = present.iter().map(|class| (color(*class), class.to_string())).collect();
    Figure {
        title: &digest.findings.plan.experiment.name,
        explanation: &explanation,
        chart: &chart,
        height: 190,
        legend: legend(names.iter().map(|(color, name)| ("dot", *color, name.as_str()))),
        table: by_life(&digest.findings.plan, points),
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
        f64::from(point.life),
        point.windows as f64,
        point.case.map_or(-1.0, |case| case as f64),
        point.ping_ns.map_or(-1.0, |ns| round(ns, 1)),
    ]
}

// Windows by life: a row for each would be longer than the page.
fn by_life(plan: &Plan, points: &[Point]) -> Markup {
    const MOST: usize = 60;
    let mut rows: Vec<(u32, f64, usize, f64, f64, Vec<f64>)> = Vec::new();
    for point in points {
        match rows.last_mut().filter(|row| row.0 == point.life) {
            Some(row) => {
                row.2 += point.windows;
                row.3 = row.3.min(point.least);
                row.4 = row.4.max(point.greatest);
                row.5.push(point.median);
            }
            None => rows.push((
                point.life,
                point.at_s,
                point.windows,
                point.least,
                point.greatest,
                vec![point.median],
            )),
        }
    }
    let heads = [
        ("life", Align::Right),
        ("from", Align::Right),
        ("windows", Align::Right),
        ("least", Align::Right),
        ("median", Align::Right),
        ("greatest", Align::Right),
    ];
    let lines: Vec<Vec<String>> = rows
        .iter_mut()
        .take(MOST)
        .map(|(life, at, windows, least, greatest, medians)| {
            medians.sort_by(f64::total_cmp);
            let median = medians[medians.len() / 2];
            vec![
                life.to_string(),
                format!("{at:.1} s"),
                windows.to_string(),
                format!("{least:.3}"),
                format!("{median:.3}"),
                format!("{greatest:.3}"),
            ]
        })
        .collect();
    let more = rows.len().saturating_sub(MOST);
    html! {
        p class="note" { "By the life that a point begins in; figures are times per unit of " (plan.experiment.metric) " over the case's median." }
        (table(&heads, &lines))
        @if more > 0 { p class="note" { "and " (plural(more, "more life").replace("lifes", "lives")) } }
    }
}
