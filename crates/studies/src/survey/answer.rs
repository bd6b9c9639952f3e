//! Which flush to use, by what is written, and what it does to others: computed once, from the figures that
//! the tables show, so that a headline, a tile or a sentence cannot say other than they do.
//!
//! There is no one cheapest flush: a log that appends 64 bytes at a time waits for a fence with every line, a
//! writer of megabytes hardly ever. So the answer is by block. *Cheapest* is a way whose interval no other
//! one's lies below; those whose intervals meet are told as tied.
//!
//! Whether a writer slows somebody down has three answers, since of dozens of intervals at 95 % some leave
//! out no change by chance: see [`Seen`].

use ringfence_analysis::estimate::{Estimate, Finding, Interval, Verdict};
use ringfence_machine::units::Bytes;
use serde::Serialize;

use super::experiments::BESIDE;

/// What users write: the block, and what it is like.
pub const WRITTEN: [(Bytes, &str); 3] =
    [(Bytes(64), "small appends"), (Bytes::kib(4), "pages"), (Bytes::mib(1), "bulk")];

/// The answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Answer {
    /// In a few sentences.
    pub headline: String,
    /// By block.
    pub blocks: Vec<ForBlock>,
    /// What writers do to others at full rate: by each instruction in blocks of [`BESIDE`], and by what is
    /// cheapest in the other blocks.
    pub harms: Vec<Harm>,
}

/// The ways to make one size of block durable.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ForBlock {
    /// The block.
    pub block: Bytes,
    /// What is like it: small appends, pages, bulk.
    pub what: &'static str,
    /// Fenced once a block, the smallest figure first; at least one.
    pub ways: Vec<Way>,
}

/// One way and its cost.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Way {
    /// The instruction, as tables name it.
    pub instruction: &'static str,
    /// ns per line.
    pub cost: Interval,
    /// Whether no other way's interval lies below its own.
    pub cheapest: bool,
}

/// What one figure says of a writer and a victim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Seen {
    /// The victim is slowed down, also at the level at which all of the survey's slowdowns hold together.
    Slows,
    /// By its own interval, but not once all are taken together.
    Perhaps,
    /// Its own interval does not say so.
    No,
    /// There is no figure.
    NotKnown,
}

impl Seen {
    /// From the finding that the tables show, and the interval that holds together with all others.
    pub fn new(finding: Option<&Finding>, together: Option<&Interval>) -> Self {
        match finding.map(|finding| finding.verdict) {
            None | Some(Verdict::NotEstimable(_)) => Self::NotKnown,
            Some(Verdict::Slower) if together.is_some_and(|together| together.low > 1.0) => Self::Slows,
            Some(Verdict::Slower) => Self::Perhaps,
            Some(_) => Self::No,
        }
    }
}

/// What a writer does to each victim.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Harm {
    /// The instruction, as tables name it.
    pub instruction: String,
    /// The block that it writes.
    pub block: Bytes,
    /// Victim by victim.
    pub victims: Vec<OfVictim>,
}

/// What it does to one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OfVictim {
    /// The victim.
    pub victim: String,
    /// What is seen.
    pub seen: Seen,
    /// The figure of the tables.
    #[serde(serialize_with = "ringfence_analysis::estimate::serialize_estimate")]
    pub slowdown: Estimate,
    /// The largest slowdown that is left possible, all figures taken together.
    pub at_most: Option<f64>,
}

impl Answer {
    /// What a writer of such blocks does to others; none where it was not measured.
    pub fn harm(&self, instruction: &str, block: Bytes) -> Option<&Harm> {
        self.harms.iter().find(|harm| harm.instruction == instruction && harm.block == block)
    }
}

impl ForBlock {
    /// Those that are cheapest: one, or several that could not be told apart.
    pub fn cheapest(&self) -> Vec<&Way> {
        self.ways.iter().filter(|way| way.cheapest).collect()
    }

    /// The first that is dearer for certain.
    pub fn next(&self) -> Option<&Way> {
        self.ways.iter().find(|way| !way.cheapest)
    }
}

impl Harm {
    /// The victim that is slowed down most: for certain where one is, else perhaps.
    pub fn worst(&self) -> Option<&OfVictim> {
        let of = |seen: Seen| {
            // Of equals the last of the reversed, which is the first.
            let slowed = self.victims.iter().rev().filter(move |one| one.seen == seen);
            slowed.max_by(|a, b| low(a).total_cmp(&low(b)))
        };
        of(Seen::Slows).or_else(|| of(Seen::Perhaps))
    }

    /// Whether every victim has a figure and none was seen to be slowed down.
    pub fn none_seen(&self) -> bool {
        self.victims.iter().all(|one| one.seen == Seen::No)
    }

    /// The largest slowdown that is left possible for any victim; none where one has no figure.
    pub fn at_most(&self) -> Option<f64> {
        let all: Option<Vec<f64>> = self.victims.iter().map(|one| one.at_most).collect();
        all?.into_iter().max_by(f64::total_cmp)
    }
}

fn low(of: &OfVictim) -> f64 {
    of.slowdown.map_or(0.0, |slowdown| slowdown.low)
}

pub(super) fn headline(answer: &Answer) -> String {
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
    Finding::new(slowdown, 0.0).to_string()
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
