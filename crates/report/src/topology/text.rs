//! A computer's processors, caches and memory nodes, as `lscpu` and `lstopo` would tell them
//! together.

use super::{caches, cpus, node};
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
        let example =
            topology.cores.first().map(|core| cpus::siblings(&core.cpus)).unwrap_or_default();
        let text = format!("SMT siblings are CPUs n and n+{offset}, as {example}.");
        paragraph(&mut out, 0, &text, style);
    }
    let mut others = String::new();
    away(&mut others, topology, style);
    if let Some(legend) = legend(&[&out, &others]) {
        paragraph(&mut out, 0, legend, style);
    }
    caches::caches(&mut out, topology, style);
    if !others.is_empty() {
        section(&mut out);
        out.push_str(&others);
    }
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
    if !topology.offline.is_empty() {
        hanging(out, "offline      ", Some(Paint::Caution), &cpus::named(&topology.offline), style);
    }
    if !denied.is_empty() {
        let text = format!(
            "{}: this process may run on {}",
            cpus::named(&denied),
            if topology.usable().is_empty() {
                "none".into()
            } else {
                cpus::named(&topology.usable())
            }
        );
        hanging(out, "not allowed  ", Some(Paint::Caution), &text, style);
    }
}

/// The highest clock frequencies, where they are known.
fn clock(topology: &Topology) -> Option<String> {
    let highest = |kind: Option<CoreKind>| {
        let of_kind = topology.cpus.iter().filter(|cpu| kind.is_none() || cpu.kind == kind);
        of_kind
            .filter_map(|cpu| cpu.max_khz)
            .max()
            .map(|khz| format!("{:.2} GHz", khz as f64 / 1e6))
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

/// What `0-12:4` means, if there is any such list.
fn legend(texts: &[&str]) -> Option<&'static str> {
    let step = |text: &str, at: usize| {
        let digits = text[at + 1..].bytes().take_while(u8::is_ascii_digit).count();
        let list = digits > 0 && text[..at].ends_with(|c: char| c.is_ascii_digit());
        list.then(|| text[at + 1..][..digits].to_string())
    };
    let steps = |text: &&str| {
        text.match_indices(':').filter_map(|(at, _)| step(text, at)).collect::<Vec<_>>()
    };
    let steps: Vec<String> = texts.iter().flat_map(steps).collect();
    match steps.iter().all(|step| step == "2") {
        _ if steps.is_empty() => None,
        true => Some("a-b:2 is every second CPU from a to b, as taskset reads it."),
        false => Some("a-b:n is every n-th CPU from a to b, as taskset reads it."),
    }
}
