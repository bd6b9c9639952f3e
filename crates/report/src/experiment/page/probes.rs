//! The machine as it was probed: latency over footprint, what each cache holds, and round trips.

use maud::{Markup, html};
use ringfence_machine::probe::{Footprints, Reload};
use ringfence_machine::units::Bytes;
use ringfence_studies::survey::{Probes, Survey};
use serde::Serialize;

use crate::experiment::page::frontier::color;
use crate::html::Section;
use crate::html::figure::{Chart, Figure, RangeRow, Ranges, Tip};
use crate::html::table::{Align, table};
use crate::numbers;
use crate::survey::text::{holds, round_trip};

#[derive(Debug, Serialize)]
pub(crate) struct Drawn {
    /// Footprint in bytes, ns per load, and the hover text.
    points: Vec<(u64, f64, String)>,
    /// Name and bytes.
    marks: Vec<(String, u64)>,
}

/// What was probed; none where every probe failed.
pub(crate) fn section(survey: &Survey) -> Option<Section> {
    let probes = &survey.probes;
    let reloaded = probes.reloads.cached.is_some() || !probes.reloads.after.is_empty();
    let curve = probes.latency.as_ref().filter(|latency| !latency.points.is_empty());
    if curve.is_none() && probes.round_trips.is_empty() && probes.caches.is_empty() && !reloaded {
        return None;
    }
    let caches: Vec<Vec<String>> = probes
        .caches
        .iter()
        .map(|cache| {
            vec![
                format!("L{}", cache.level),
                cache.nominal.to_string(),
                holds(cache),
                cache.plateau_ns.map_or(String::new(), numbers::ns),
            ]
        })
        .collect();
    let heads = [
        ("cache", Align::Left),
        ("nominal", Align::Right),
        ("found", Align::Left),
        ("latency", Align::Right),
    ];
    let body = html! {
        @if let Some(curve) = curve { (latency(probes, curve)) }
        @if !caches.is_empty() { (table("What each cache was found to hold", &heads, &caches)) }
        @if let Some(memory) = probes.memory { p { "Memory \
            from " (memory.from) " on: " (numbers::ns(memory.ns)) " a load." } }
        @if let Some(curve) = &probes.latency { p { "In " (curve.pages_in_words()) "." } }
        @if let Some(level) = &probes.victim_level {
            p { "The chase of " (probes.victim_footprint) " waits \
                for " (level.name) ": " (probes.victim_footprint_from) ". Alone, each of its \
                    starts should \
                    take " (numbers::ns(level.from_ns)) " to " (numbers::ns(level.to_ns)) " a \
                        load." }
        }
        @for starts in &survey.outside { p { (crate::survey::text::outside(starts)) } }
        @let small = probes.latency_small_pages.as_ref();
        @if let Some(small) = small.filter(|small| !small.points.is_empty()) {
            @let rows: Vec<Vec<String>> = small.points.iter().map(|(size, ns)| {
                let huge = probes.latency.as_ref().and_then(|huge| huge.at(*size));
                vec![size.to_string(), numbers::ns(*ns), huge.map_or(String::new(), numbers::ns)]
            }).collect();
            details {
                summary { "The same in " (small.pages_in_words()) ": what page walks add" }
                (table("Latency of a load in small and in huge \
                        pages", &[("footprint", Align::Right), ("4KiB \
                            pages", Align::Right), ("huge pages", Align::Right)], &rows))
            }
        }
        @if let Some(figure) = reloads(survey) { (figure) }
        @if !probes.round_trips.is_empty() {
            h3 { "Round trips between CPUs" }
            ul { @for trip in &probes.round_trips { li { (round_trip(trip, &survey.machine)) } } }
        }
    };
    Some(Section { id: "probes", title: "The machine as probed".into(), body })
}

// The curve of latency over footprint.
fn latency(probes: &Probes, curve: &Footprints) -> Markup {
    let marks = probes
        .caches
        .iter()
        .filter_map(|cache| Some((format!("L{}", cache.level), cache.measured?.0)));
    let hover = |size: &Bytes, ns: f64| format!("{size}: {} a load", numbers::ns(ns));
    let chart = Chart::new(
        "curve",
        Drawn {
            points: curve.points.iter().map(|(size, ns)| (size.0, *ns, hover(size, *ns))).collect(),
            marks: marks.chain([("chase".into(), probes.victim_footprint.0)]).collect(),
        },
    );
    let rows: Vec<Vec<String>> =
        curve.points.iter().map(|(size, ns)| vec![size.to_string(), numbers::ns(*ns)]).collect();
    let title = format!("Latency of a load over footprint, CPU {}", probes.cpu);
    let heads = [("footprint", Align::Right), ("per load", Align::Right)];
    let figure = Figure {
        title: &title,
        explanation: "Lines: what each cache was found to hold, and the footprint of the chase.",
        chart: &chart,
        height: 260,
        legend: html! {},
        table: table(&title, &heads, &rows),
    };
    figure.render()
}

// What loading a line again costs, after it was left alone and after each flush.
fn reloads(survey: &Survey) -> Option<Markup> {
    let reloads = &survey.probes.reloads;
    let cached = reloads.cached.iter().map(|reload| ("left alone".to_owned(), "other", reload));
    let after =
        reloads.after.iter().map(|(name, reload)| (format!("after {name}"), color(name), reload));
    let all: Vec<(String, &str, &Reload)> = cached.chain(after).collect();
    if all.is_empty() {
        return None;
    }
    let figures =
        |reload: &Reload| [reload.median_ns, reload.p10_ns, reload.p90_ns].map(numbers::ns);
    let rows: Vec<RangeRow> = all
        .iter()
        .map(|(name, color, reload)| {
            let [median, p10, p90] = figures(reload);
            RangeRow {
                name: name.clone(),
                color: (*color).into(),
                faint: false,
                figure: Some([reload.median_ns, reload.p10_ns, reload.p90_ns]),
                text: median.clone(),
                tip: Tip::new(name)
                    .with("median", median)
                    .with("p10 to p90", format!("{p10} to {p90}")),
            }
        })
        .collect();
    let lines: Vec<Vec<String>> = all
        .iter()
        .map(|(name, _, reload)| std::iter::once(name.clone()).chain(figures(reload)).collect())
        .collect();
    let heads = [
        ("line", Align::Left),
        ("median", Align::Right),
        ("p10", Align::Right),
        ("p90", Align::Right),
    ];
    let title = "Loading a line again";
    let table = table(title, &heads, &lines);
    let explanation =
        "Medians over rounds of 512 lines; bars reach from the 10th to the 90th percentile.";
    let ranges = Ranges { axis: "time per load".into(), unit: "ns", rows, mark: None };
    Some(html! { h3 { "What a flush leaves in the \
    cache" } (ranges.figure(title, explanation, table)) })
}
