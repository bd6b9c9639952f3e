//! A computer's processors, caches and memory nodes, as `lscpu` and `lstopo` would tell them
//! together.

mod caches;
mod cpus;
mod node;

use ringfence_machine::topology::{CoreKind, Topology};

use crate::style::{Paint, Style};
use crate::text::{hanging, heading, paragraph, section};

/// From so many CPUs on, cores are not listed one by one.
const FOLDED_FROM: usize = 64;

/// The topology as a page of text.
pub fn topology(topology: &Topology, style: &Style) -> String {
    let mut out = String::new();
    heading(&mut out, &topology.summary(), style);
    if let Some(clock) = clock(topology) {
        paragraph(&mut out, 0, &clock, style);
    }
    out.push('\n');
    let folded = topology.online.len() >= FOLDED_FROM;
    let regular = cpus::regular_siblings(topology);
    node::nodes(&mut out, topology, folded && regular.is_some(), style);
    if folded && let Some(offset) = regular {
        let example = topology.cores.first().map(|core| cpus::siblings(&core.cpus)).unwrap_or_default();
        let text = format!("SMT siblings are CPUs n and n+{offset}, as {example}.");
        paragraph(&mut out, 0, &text, style);
    }
    if strided(topology) {
        paragraph(&mut out, 0, "a-b:2 is every second CPU from a to b, as taskset reads it.", style);
    }
    caches::caches(&mut out, topology, style);
    away(&mut out, topology, style);
    let contradictions: Vec<&str> = topology.contradictions.iter().map(|one| &*one.text).collect();
    let notes: Vec<&str> = topology.notes.iter().map(|note| &**note).collect();
    for (title, texts) in [("Contradictory", contradictions), ("Not known", notes)] {
        if !texts.is_empty() {
            section(&mut out);
            heading(&mut out, title, style);
            texts.iter().for_each(|text| paragraph(&mut out, 2, text, style));
        }
    }
    out
}

/// CPUs that are there and cannot be used.
fn away(out: &mut String, topology: &Topology, style: &Style) {
    let denied = topology.online.difference(&topology.allowed);
    if topology.offline.is_empty() && denied.is_empty() {
        return;
    }
    section(out);
    if !topology.offline.is_empty() {
        hanging(out, "offline      ", Some(Paint::Caution), &cpus::named(&topology.offline), style);
    }
    if !denied.is_empty() {
        let text = format!(
            "{}: this process may run on {}",
            cpus::named(&denied),
            if topology.usable().is_empty() { "none".into() } else { cpus::named(&topology.usable()) }
        );
        hanging(out, "not allowed  ", Some(Paint::Caution), &text, style);
    }
}

/// The highest clock frequencies, where they are known.
fn clock(topology: &Topology) -> Option<String> {
    let highest = |kind: Option<CoreKind>| {
        let of_kind = topology.cpus.iter().filter(|cpu| kind.is_none() || cpu.kind == kind);
        of_kind.filter_map(|cpu| cpu.max_khz).max().map(|khz| format!("{:.2} GHz", khz as f64 / 1e6))
    };
    let by_kind: Vec<String> = CoreKind::ALL
        .into_iter()
        .filter_map(|kind| Some(format!("{}s at up to {}", kind.name(), highest(Some(kind))?)))
        .collect();
    match by_kind[..] {
        [] => Some(format!("up to {}", highest(None)?)),
        _ => Some(by_kind.join(", ")),
    }
}

fn strided(topology: &Topology) -> bool {
    let nodes = topology.nodes.iter().map(|node| &node.cpus);
    nodes.chain(topology.caches.iter().map(|cache| &cache.cpus)).any(|set| cpus::list(set).contains(":2"))
}
