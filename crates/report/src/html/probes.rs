//! The machine as it was probed: latency over footprint, what each cache holds, and round trips.

use maud::html;
use ringfence_lab::survey::Survey;
use serde::Serialize;

use super::Section;
use super::figure::{Chart, Figure};
use super::table::{Align, table};
use crate::numbers;
use crate::survey::round_trip;

#[derive(Debug, Serialize)]
pub(super) struct Drawn {
    /// Footprint in bytes, ns per load, and the hover text.
    points: Vec<(u64, f64, String)>,
    /// Name and bytes.
    marks: Vec<(String, u64)>,
}

/// What was probed; none where every probe failed.
pub(super) fn section(survey: &Survey) -> Option<Section> {
    let probes = &survey.probes;
    let curve = probes.latency.as_ref().filter(|latency| !latency.points.is_empty());
    if curve.is_none() && probes.round_trips.is_empty() && probes.caches.is_empty() {
        return None;
    }
    let caches: Vec<Vec<String>> = probes
        .caches
        .iter()
        .map(|knee| {
            vec![
                format!("L{}", knee.level),
                knee.nominal.to_string(),
                knee.measured.map_or("no clear edge".into(), |size| size.to_string()),
                knee.plateau_ns.map_or(String::new(), numbers::ns),
            ]
        })
        .collect();
    let heads = [
        ("cache", Align::Left),
        ("nominal", Align::Right),
        ("measured", Align::Right),
        ("latency", Align::Right),
    ];
    let body = html! {
        @if let Some(curve) = curve {
            @let marks = probes.caches.iter().filter_map(|knee| Some((format!("L{}", knee.level), knee.measured?.0)));
            @let chart = Chart::Curve(Drawn {
                points: curve.points.iter().map(|(size, ns)| (size.0, *ns, format!("{size}: {} a load", numbers::ns(*ns)))).collect(),
                marks: marks.chain([("chase".into(), probes.victim_footprint.0)]).collect(),
            });
            @let rows: Vec<Vec<String>> = curve.points.iter().map(|(size, ns)| vec![size.to_string(), numbers::ns(*ns)]).collect();
            (Figure {
                title: &format!("Latency of a load over footprint, CPU {}", probes.cpu),
                explanation: "Lines: what each cache was measured to hold, and the footprint of the chase.",
                chart: &chart,
                height: 260,
                legend: html! {},
                table: table(&[("footprint", Align::Right), ("per load", Align::Right)], &rows),
            }.render())
        }
        @if !caches.is_empty() { (table(&heads, &caches)) }
        @if !probes.round_trips.is_empty() {
            h3 { "Round trips between CPUs" }
            ul { @for trip in &probes.round_trips { li { (round_trip(trip, &survey.machine)) } } }
        }
    };
    Some(Section { id: "probes", title: "The machine as probed".into(), body })
}
