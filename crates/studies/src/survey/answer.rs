//! Which flush to use, by what is written, and what it does to others: computed once, from the
//! figures that the tables show, so that a headline, a tile or a sentence, which print it, cannot
//! say other than they do.
//!
//! There is no one cheapest flush: a log that appends 64 bytes at a time waits for a fence with
//! every line, a writer of megabytes hardly ever. So the answer is by block. *Cheapest* is a method
//! whose interval no other one's lies below; those whose intervals meet are told as tied.
//!
//! Whether a writer slows a victim down has three answers, since of dozens of intervals at 95 %
//! some leave out no change by chance: see [`Seen`].

use ringfence_analysis::estimate::{Estimate, Finding, Interval, Verdict};
use ringfence_machine::units::Bytes;
use serde::Serialize;

pub use super::experiments::BESIDE;

/// What users write: the block, and what it is like.
pub const WRITTEN: [(Bytes, &str); 3] =
    [(Bytes(64), "small appends"), (Bytes::kib(4), "pages"), (Bytes::mib(1), "bulk")];

/// The answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Answer {
    /// By block.
    pub blocks: Vec<ForBlock>,
    /// What writers do to others at full rate: by each instruction in blocks of [`BESIDE`], and by
    /// what is cheapest in the other blocks.
    pub harms: Vec<Harm>,
}

/// The methods to make one size of block durable.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ForBlock {
    /// The block.
    pub block: Bytes,
    /// What is like it: small appends, pages, bulk.
    pub what: &'static str,
    /// Fenced once a block, the smallest figure first; at least one.
    pub methods: Vec<Method>,
}

/// One method and its cost.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Method {
    /// The instruction, as tables name it.
    pub instruction: &'static str,
    /// ns per line.
    pub cost: Interval,
    /// Whether no other method's interval lies below its own.
    pub cheapest: bool,
}

/// The result of one figure for a writer and a victim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Seen {
    /// The victim is slowed down, also at the level at which all of the survey's slowdowns hold
    /// together.
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
            Some(Verdict::Slower) if together.is_some_and(|together| together.low > 1.0) => {
                Self::Slows
            }
            Some(Verdict::Slower) => Self::Perhaps,
            Some(_) => Self::No,
        }
    }
}

/// What a writer does to each victim.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    pub fn cheapest(&self) -> Vec<&Method> {
        self.methods.iter().filter(|method| method.cheapest).collect()
    }

    /// The first that is dearer for certain.
    pub fn next(&self) -> Option<&Method> {
        self.methods.iter().find(|method| !method.cheapest)
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
