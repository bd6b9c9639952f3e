//! A survey's answer in words.

use ringfence_analysis::estimate::{Estimate, Finding};
use ringfence_studies::survey::answer::{Answer, BESIDE, ForBlock, Harm, Seen, Way};

use crate::sentence::sentence;

/// What is cheapest to make durable, by what is written, and what that does to others: in a few sentences.
pub fn headline(answer: &Answer) -> String {
    // Blocks that have the same answer are told together.
    let mut groups: Vec<(Vec<&'static str>, Vec<&ForBlock>)> = Vec::new();
    for block in &answer.blocks {
        let names: Vec<&'static str> = block.cheapest().iter().map(|way| way.instruction).collect();
        match groups.iter_mut().find(|(known, _)| *known == names) {
            Some((_, blocks)) => blocks.push(block),
            None => groups.push((names, vec![block])),
        }
    }
    let parts: Vec<String> = groups
        .iter()
        .map(|(names, blocks)| {
            let what: Vec<String> =
                blocks.iter().map(|block| format!("{} ({} blocks)", block.what, block.block)).collect();
            format!("{} for {}", listed(names, "or"), listed(&what, "and"))
        })
        .collect();
    let mut text = format!("Cheapest to make durable here: {}.", parts.join("; "));
    let named: Vec<(&ForBlock, &Way)> =
        answer.blocks.iter().flat_map(|of| of.cheapest().into_iter().map(move |way| (of, way))).collect();
    if named.iter().all(|(of, way)| answer.harm(way.instruction, of.block).is_none()) {
        return text + " Whom they disturb was not measured.";
    }
    text += &format!(" Next to others: {}.", harms_of(answer, &named).join("; "));
    if let Some(gentle) = gentler(answer) {
        text += &format!(" {gentle}");
    }
    text
}

// Those that harm, each by itself; those that were not seen to, and those of which it is not known, together.
fn harms_of(answer: &Answer, named: &[(&ForBlock, &Way)]) -> Vec<String> {
    let (mut said, mut calm, mut unknown) = (Vec::new(), Vec::new(), Vec::new());
    let mut left: Option<f64> = Some(0.0);
    for (of, way) in named {
        let name = (of.what, way.instruction);
        let Some(harm) = answer.harm(way.instruction, of.block) else {
            unknown.push(name);
            continue;
        };
        if let Some(worst) = harm.worst() {
            let how = slower(&worst.slowdown);
            said.push(match worst.seen {
                Seen::Slows => format!("{} with {} slow {} ({how})", name.0, name.1, worst.victim),
                _ => format!(
                    "{} with {} perhaps slow {} ({how}, by that interval alone)",
                    name.0, name.1, worst.victim
                ),
            });
        } else if harm.none_seen() {
            calm.push(name);
            left = left.zip(harm.at_most()).map(|(left, most)| left.max(most));
        } else {
            unknown.push(name);
        }
    }
    if !calm.is_empty() {
        let left = left.map_or_else(
            || "what is left possible is not known".into(),
            |most| format!("{} at most is left possible", at_most(most)),
        );
        said.push(format!("{} were not seen to slow anybody ({left})", listed(&by_what(&calm), "and")));
    }
    if !unknown.is_empty() {
        said.push(format!("whether {} slow anybody is not known", listed(&by_what(&unknown), "or")));
    }
    said
}

// `pages with nt or clwb`: what is written, with all its ways.
fn by_what(names: &[(&'static str, &'static str)]) -> Vec<String> {
    let of = names.chunk_by(|a, b| a.0 == b.0);
    of.map(|of| {
        let ways: Vec<&str> = of.iter().map(|(_, way)| *way).collect();
        format!("{} with {}", of[0].0, listed(&ways, "or"))
    })
    .collect()
}

// Where what is cheapest in the blocks that every instruction writes does harm: one that was not seen to.
fn gentler(answer: &Answer) -> Option<String> {
    let of = answer.blocks.iter().find(|of| of.block == BESIDE)?;
    let harm = |way: &Way| answer.harm(way.instruction, BESIDE);
    of.cheapest().into_iter().find(|way| harm(way).is_some_and(|harm| harm.worst().is_some()))?;
    let gentle = of.ways.iter().find(|way| harm(way).is_some_and(Harm::none_seen))?;
    // Where it is one of the cheapest it was named already.
    let left = harm(gentle).filter(|_| !gentle.cheapest)?.at_most()?;
    Some(format!(
        "{} with {} were not seen to slow anybody ({} at most is left possible), at {} a line.",
        capital(of.what),
        gentle.instruction,
        at_most(left),
        ns(gentle.cost.value),
    ))
}

/// `a, b or c`.
pub(super) fn listed<T: AsRef<str>>(names: &[T], last: &str) -> String {
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    match names[..] {
        [] => String::new(),
        [one] => one.into(),
        [ref first @ .., end] => format!("{} {last} {end}", first.join(", ")),
    }
}

/// `slower by 3.4 % [0.1, 6.7]`, of a slowdown whose interval lies above 1.
pub(super) fn slower(slowdown: &Estimate) -> String {
    sentence(&Finding::new(slowdown, 0.0))
}

/// A bound, rounded up so that it holds.
pub(super) fn at_most(slowdown: f64) -> String {
    if slowdown >= 2.0 {
        format!("{:.1}x", (slowdown * 10.0).ceil() / 10.0)
    } else {
        format!("{:+.1} %", ((slowdown - 1.0) * 1000.0).ceil() / 10.0)
    }
}

pub(super) fn ns(value: f64) -> String {
    if value < 10.0 { format!("{value:.1} ns") } else { format!("{value:.0} ns") }
}

pub(super) fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |first| first.to_uppercase().chain(chars).collect())
}
