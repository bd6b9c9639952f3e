//! What a path is, in a few lines.

use ringfence_machine::medium::{Durable, Load, Medium, Reach};

use crate::style::Style;
use crate::text::{faint, listed};

use super::text::explain;

/// What is said of a path without [`Style::details`].
pub struct Explained<'a> {
    /// The path.
    pub subject: &'a str,
    /// What is said of it where it is no ordinary file.
    pub verdict: &'a str,
    /// Why, the deciding reason first.
    pub reasons: &'a [String],
    /// Whether stores to it go through the page cache.
    pub is_ordinary: bool,
    /// What it lies on, where that is known.
    pub medium: Option<&'a Medium>,
}

/// Which calls make data safe there, in a sentence; then what it lies on, and the doubts.
pub fn explain_brief(of: &Explained, style: &Style) -> String {
    let mut lines: Vec<(String, String)> = Vec::new();
    let mut add = |lead: &str, text: String| lines.push((lead.into(), text));
    if !of.is_ordinary {
        of.reasons.iter().take(1).for_each(|reason| add("because", reason.clone()));
    }
    if let Some(medium) = of.medium {
        // Of memory all calls say the same.
        let is_memory = matches!(medium.flush, Reach::Memory(_));
        for (durable, lead) in WORDS {
            let calls = calls(medium, durable);
            if !calls.is_empty() && !is_memory {
                add(lead, calls.join(", "));
            }
        }
        add("lies on", lies_on(medium));
        if medium.file_system.journal == Some(false) {
            add("but", "without a journal, a crash can damage files".into());
        }
        medium.unknown.iter().for_each(|text| add("unknown", text.clone()));
        for Load { device, .. } in medium.load.iter().filter(|load| load.is_written_to()) {
            add("now", format!("other programs write to {device}: measured figures differ"));
        }
    }
    let ordinary = of
        .medium
        .filter(|_| of.is_ordinary)
        .map(|medium| format!("{}: {}", of.subject, safe(medium)));
    let heading = ordinary.as_deref().unwrap_or(of.verdict);
    let mut out = explain(&[(heading, lines)], style);
    faint(&mut out, "Every layer, reasons and sources: ringfence explain PATH -v", style);
    out
}

const WORDS: [(Durable, &str); 4] = [
    (Durable::Yes, "safe"),
    (Durable::AsTheServerSays, "if the server keeps its word"),
    (Durable::No, "not safe"),
    (Durable::Unknown, "unknown"),
];

fn calls(medium: &Medium, durable: Durable) -> Vec<&str> {
    let own = medium.promises.iter().filter(|promise| promise.durable == durable);
    own.map(|promise| if promise.call == "none" { "no call" } else { promise.call }).collect()
}

// Calls that flush what was written before; the others are flags of writes, or parts of a sync.
const SYNCS: [&str; 3] = ["fsync", "fdatasync", "msync"];

fn safe(medium: &Medium) -> String {
    let syncs = |durable: Durable| {
        let mut calls = calls(medium, durable);
        calls.retain(|call| SYNCS.contains(call));
        listed(&calls, "or")
    };
    let (yes, served) = (syncs(Durable::Yes), syncs(Durable::AsTheServerSays));
    match (yes.is_empty(), served.is_empty()) {
        (false, _) => format!("data is safe once {yes} has returned"),
        (true, false) => {
            format!("data is safe once {served} has returned, if the server keeps its word")
        }
        (true, true) if !syncs(Durable::Unknown).is_empty() => {
            "whether any call makes data safe cannot be told from here".into()
        }
        (true, true) => "no call makes data safe against a power failure".into(),
    }
}

fn lies_on(medium: &Medium) -> String {
    let (name, source) = (&medium.file_system.name, &medium.file_system.source);
    let system = match source.starts_with('/') {
        true => format!("{name} on {source}"),
        false => name.clone(),
    };
    let reach = match &medium.flush {
        Reach::NothingToFlush(disks) => {
            format!("{} has no cache that can lose data", listed(disks, "and"))
        }
        Reach::Disks(disks) => format!("a sync flushes the cache of {}", listed(disks, "and")),
        Reach::Server(server) => format!("a sync is left to {server}"),
        Reach::Unknown(why) => format!("whether a sync reaches the disk is unknown, because {why}"),
        Reach::Stopped(why) => format!("no sync flushes the disk's cache, because {why}"),
        Reach::Memory(_) => "this is memory: whatever the call, a power failure loses all".into(),
    };
    format!("{system}; {reach}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_ordinary_file_has_its_own_verdict() {
        let reasons = ["it is tmpfs".to_string(), "and more".into()];
        let brief = Explained {
            subject: "/dev/shm/x",
            verdict: "/dev/shm/x: volatile",
            reasons: &reasons,
            is_ordinary: false,
            medium: None,
        };
        let expected = "/dev/shm/x: volatile\n  because   it is tmpfs\nEvery layer, reasons and \
                        sources: ringfence explain PATH -v\n";
        assert_eq!(explain_brief(&brief, &Style::plain(80)), expected);
    }
}
