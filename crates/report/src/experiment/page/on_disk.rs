//! The frontier of disks: what is committed or written a second against the p99, or the slowdown,
//! of the program that runs at the same time.

use maud::{Markup, html};
use ringfence_analysis::estimate::Estimate;
use ringfence_analysis::frontier::{Against, Amount, DiskPoint, OnDisk, Standing};
use ringfence_experiment::task::{Commit, Task};

use crate::commits::page as commits;
use crate::experiment::cases::words;
use crate::experiment::page::frontier::{Drawn, DrawnPoint};
use crate::html::figure::{Chart, Figure, Tip, legend};
use crate::html::table::{Align, table};
use crate::html::{Digest, Section};
use crate::numbers;

/// A figure for each kind of work; none where nothing has both figures.
pub(crate) fn section(digest: &Digest) -> Option<Section> {
    let figures: Vec<Markup> =
        digest.findings.on_disk.iter().filter_map(|found| figure(digest, found)).collect();
    if figures.is_empty() {
        return None;
    }
    let body = html! {
        div class={ "row" @if figures.len() == 1 { " one" } } {
            @for figure in &figures { (figure) }
        }
    };
    Some(Section { id: "on-disk", title: "Work on the disk against its harm".into(), body })
}

fn figure(digest: &Digest, found: &OnDisk) -> Option<Markup> {
    let plan = &digest.findings.plan;
    let metric = &plan.experiment.metric;
    let names = names(digest, found);
    let named = || found.points.iter().zip(&names);
    let points: Vec<DrawnPoint> =
        named().filter_map(|(point, name)| drawn(name, found, point)).collect();
    if points.len() < 2 {
        return None;
    }
    let (what, count) = match found.amount {
        Amount::Commits => ("commits", Some("commits")),
        Amount::Records => ("records committed", Some("records")),
        Amount::Bytes => ("bytes written", None),
    };
    let x = match found.against {
        Against::P99 => format!("p99 of {metric}"),
        Against::Slowdown => format!("{} of {metric}", plan.experiment.measure.quantity.slowdown()),
    };
    let mut explanation = "Higher is more, further left is gentler. Bars are intervals, with an \
                           arrow where they go on beyond the frame. Efficient: the fastest, and \
                           every way that is gentler than all faster ones."
        .to_owned();
    if found.against == Against::Slowdown {
        explanation += " It is the slowdown, since too few latencies bear a p99.";
    }
    let left_out = found.points.len() - points.len();
    if left_out > 0 {
        explanation += &format!(
            " Not drawn, because a figure is missing: {left_out} of {}.",
            found.points.len()
        );
    }
    if found.alone.is_some() && found.against == Against::P99 {
        explanation += " The line is where it is alone.";
    }
    let mut entries = vec![("ring", "ink", "efficient")];
    if points.iter().any(|point| matches!(point.standing, Standing::Unfenced)) {
        entries.push(("diamond", "plain", "not durable"));
    }
    let title = format!("{what} a second against the {x}");
    let chart = Chart::new(
        "frontier",
        Drawn {
            x,
            y: format!("{what} a second"),
            points,
            ns: found.against == Against::P99,
            alone: found.alone.filter(|_| found.against == Against::P99),
            count,
        },
    );
    let figure = Figure {
        title: &crate::text::capital(&title),
        explanation: &explanation,
        chart: &chart,
        height: 380,
        legend: legend(entries),
        table: numbers_table(found, &names),
    };
    Some(figure.render())
}

// Ways to commit by what they differ in; anything else as in other tables.
fn names(digest: &Digest, found: &OnDisk) -> Vec<String> {
    let plan = &digest.findings.plan;
    let task = |point: &DiskPoint| {
        let active =
            plan.cases[point.case].active.iter().find(|active| active.role == point.role)?;
        match &plan.variants[active.role].get(active.variant)?.task {
            Task::Commit(task) => Some(task),
            _ => None,
        }
    };
    let tasks: Vec<&Commit> = found.points.iter().filter_map(task).collect();
    let short = commits::by_difference(&tasks).filter(|short| short.len() == found.points.len());
    short.unwrap_or_else(|| found.points.iter().map(|point| words(plan, point.case)).collect())
}

fn drawn(name: &str, found: &OnDisk, point: &DiskPoint) -> Option<DrawnPoint> {
    let (rate, against) = (point.per_s.ok()?, point.against.ok()?);
    let tip = Tip::new(name)
        .with("a second", self::rate(found, &point.per_s))
        .with(harm(found), self::against(found, &point.against))
        .with("stands", standing(point));
    Some(DrawnPoint {
        color: if point.durable { "clwb" } else { "plain" },
        standing: point.standing,
        paced: false,
        x: [against.value, against.low, against.high],
        y: [rate.value, rate.low, rate.high],
        tip,
        name: name.into(),
    })
}

fn harm(found: &OnDisk) -> &'static str {
    match found.against {
        Against::P99 => "p99",
        Against::Slowdown => "slowdown",
    }
}

fn rate(found: &OnDisk, rate: &Estimate) -> String {
    match (rate, found.amount) {
        (Err(reason), _) => reason.told(),
        (Ok(rate), Amount::Bytes) => numbers::bytes_per_s_interval(rate),
        (Ok(rate), _) => {
            let [value, low, high] =
                [rate.value, rate.low, rate.high].map(|rate| numbers::count(rate.round() as u64));
            format!("{value} [{low}, {high}]")
        }
    }
}

fn against(found: &OnDisk, estimate: &Estimate) -> String {
    match found.against {
        Against::P99 => numbers::ns_estimate(estimate),
        Against::Slowdown => numbers::slowdown_estimate(estimate),
    }
}

fn standing(point: &DiskPoint) -> &'static str {
    match point.standing {
        Standing::Efficient => "efficient",
        Standing::Close => "a faster one may be as gentle",
        Standing::Beaten => "another one does more or is gentler",
        Standing::Unfenced => "not durable",
        Standing::Incomplete => "a figure is missing",
    }
}

fn numbers_table(found: &OnDisk, names: &[String]) -> Markup {
    let heads = [
        ("way", Align::Left),
        ("a second", Align::Right),
        (harm(found), Align::Right),
        ("stands", Align::Left),
    ];
    let row = |(point, name): (&DiskPoint, &String)| {
        vec![
            name.clone(),
            rate(found, &point.per_s),
            against(found, &point.against),
            standing(point).into(),
        ]
    };
    let rows: Vec<Vec<String>> = found.points.iter().zip(names).map(row).collect();
    table("Every method, what it does, and what it slows", &heads, &rows)
}
