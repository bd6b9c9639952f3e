//! The longest commits over time, and under them what the page cache and the disk did.

use maud::{Markup, html};
use ringfence_analysis::stalls::{Stall, Stalls};
use ringfence_machine::units::Bytes;
use serde::Serialize;

use crate::experiment::cases::{one, words};
use crate::histogram::time;
use crate::html::figure::{Chart, Figure, LOOKS, legend};
use crate::html::table::{Align, table};
use crate::html::{Digest, Section};
use crate::numbers::{NO_FIGURE, percent};
use crate::text::plural;

#[derive(Debug, Serialize)]
pub(crate) struct Drawn {
    /// The cases' names, colours and shapes, to which points refer.
    cases: Vec<(String, &'static str, &'static str)>,
    /// What a latency is that of.
    unit: String,
    /// Start and length in s, case, longest in ns, dirty and written-back bytes, share of time that
    /// the disk was busy; -1 for what is not known.
    points: Vec<[f64; 7]>,
    /// When the others stopped, s.
    stops: Vec<f64>,
}

/// A figure for each dataset; nothing where no task uses a disk.
pub(crate) fn section(digests: &[&Digest]) -> Option<Section> {
    let figures: Vec<Markup> =
        digests.iter().filter_map(|digest| figure(digest, digests.len() > 1)).collect();
    let body = html! { div class="row one" { @for figure in &figures { (figure) } } };
    (!figures.is_empty()).then(|| Section { id: "stalls", title: "Stalls".into(), body })
}

fn figure(digest: &Digest, several: bool) -> Option<Markup> {
    let Stalls { points, stops_s, .. } = &digest.findings.stalls;
    let counted = points.iter().any(|point| point.longest_ns.is_some());
    let watched = points.iter().any(|point| point.dirty_bytes.is_some() || point.busy.is_some());
    if !counted && !watched {
        return None;
    }
    let plan = &digest.findings.plan;
    let shown: Vec<usize> =
        (0..plan.cases.len()).filter(|case| points.iter().any(|p| p.case == *case)).collect();
    let look = |case: usize| match shown.iter().position(|shown| *shown == case) {
        Some(place) if shown.len() <= LOOKS.len() => LOOKS[place],
        _ => ("other", "dot"),
    };
    let cases: Vec<(String, &str, &str)> = (0..plan.cases.len())
        .map(|case| {
            let (color, shape) = look(case);
            (words(plan, case), color, shape)
        })
        .collect();
    let unit = one(plan.metric_task(shown[0]).unit()).to_owned();
    let explanation = explanation(&digest.findings.stalls, &unit, counted, watched);
    let chart = Chart::new(
        "stalls",
        Drawn {
            cases: cases.clone(),
            unit: unit.clone(),
            points: points.iter().map(drawn).collect(),
            stops: stops_s.clone(),
        },
    );
    let mut entries: Vec<(&str, &str, &str)> = match shown.len() {
        few if few <= LOOKS.len() => shown
            .iter()
            .map(|case| (cases[*case].2, cases[*case].1, cases[*case].0.as_str()))
            .collect(),
        _ => Vec::new(),
    };
    if watched {
        entries.extend([
            ("line", "clflushopt", "dirty in the page cache"),
            ("line", "msync", "being written back"),
        ]);
    }
    let title = if counted {
        format!("The longest {unit}s over time")
    } else {
        "The disk over time".into()
    };
    let title = if several { format!("{title}, {}", plan.experiment.name) } else { title };
    let height = 20 + if counted { 200 } else { 0 } + if watched { 220 } else { 0 };
    let figure = Figure {
        title: &title,
        explanation: &explanation,
        chart: &chart,
        height,
        legend: legend(entries),
        table: by_case(&cases, &shown, points, &unit),
    };
    Some(figure.render())
}

// What the axes show, of the latencies that were counted and the disk that was watched.
fn explanation(stalls: &Stalls, unit: &str, counted: bool, watched: bool) -> String {
    let mut explanation = match counted {
        true => format!("Above, the longest {unit} of each stretch, on a logarithmic axis. "),
        false => String::new(),
    };
    explanation += match watched {
        true => {
            "Below, at the end of each stretch the bytes that are dirty or being written back in \
             the whole machine, and the share of \
             its time in which the busiest disk had a request under way, by the kernel's counts \
             (all programs together)."
        }
        false => "What the disk did was not recorded: this dataset is of an earlier version.",
    };
    if stalls.per_point > 1 {
        explanation += &format!(
            " A point is {} stretches in a row of the same case, and the most of each; \
             busy is their mean.",
            stalls.per_point
        );
    }
    if !stalls.stops_s.is_empty() {
        explanation += " Dashed lines: there the writers stopped.";
    }
    explanation
}

fn drawn(point: &Stall) -> [f64; 7] {
    let round = |x: f64| (x * 1e3).round() / 1e3;
    let or_none = |value: Option<u64>| value.map_or(-1.0, |value| value as f64);
    [
        round(point.at_s),
        round(point.length_s),
        point.case as f64,
        or_none(point.longest_ns),
        or_none(point.dirty_bytes),
        or_none(point.writeback_bytes),
        point.busy.map_or(-1.0, round),
    ]
}

// By case: a row for each point would be longer than the page.
fn by_case(
    cases: &[(String, &str, &str)],
    shown: &[usize],
    points: &[Stall],
    unit: &str,
) -> Markup {
    let longest = format!("longest {unit}");
    let heads = [
        ("case", Align::Left),
        (longest.as_str(), Align::Right),
        ("most dirty", Align::Right),
        ("most written back at once", Align::Right),
        ("disk busy", Align::Right),
    ];
    let row = |case: &usize| {
        let own = || points.iter().filter(|point| point.case == *case);
        let bytes = |of: fn(&Stall) -> Option<u64>| {
            own()
                .filter_map(of)
                .max()
                .map_or(NO_FIGURE.into(), |bytes| Bytes(rounded(bytes)).to_string())
        };
        let busy = || own().filter_map(|point| Some((point.busy?, point.length_s)));
        let all: f64 = busy().map(|(_, length)| length).sum();
        let busy: f64 = busy().map(|(busy, length)| busy * length).sum();
        vec![
            cases[*case].0.clone(),
            own().filter_map(|point| point.longest_ns).max().map_or(NO_FIGURE.into(), time),
            bytes(|point| point.dirty_bytes),
            bytes(|point| point.writeback_bytes),
            if all > 0.0 { percent(busy / all) } else { NO_FIGURE.into() },
        ]
    };
    let count = plural(points.len(), "point");
    let lines: Vec<Vec<String>> = shown.iter().map(row).collect();
    html! {
        p class="note" { "By case, over " (count) "; a time is the lower end of its bucket." }
        (table("The longest and the disk, by case", &heads, &lines))
    }
}

// Whole MiB, or KiB where there are few, so that they are shown in a short form.
fn rounded(bytes: u64) -> u64 {
    let step = if bytes >= 1 << 23 { 1 << 20 } else { 1 << 10 };
    bytes.div_ceil(step).saturating_mul(step)
}

#[cfg(test)]
mod tests {
    use super::rounded;

    #[test]
    fn any_number_of_bytes_is_rounded_up() {
        let (kib, mib) = (1 << 10, 1 << 20);
        let rounded: Vec<u64> = [0, 1, kib, kib + 1, 9 * mib + 1].map(rounded).into();
        assert_eq!(rounded, [0, kib, kib, 2 * kib, 10 * mib]);
        assert_eq!(super::rounded(u64::MAX), u64::MAX);
    }
}
