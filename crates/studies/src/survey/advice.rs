//! What a survey advises, as values; others say it in words.

use ringfence_analysis::estimate::{Estimate, Interval, serialize_estimate};
use serde::Serialize;

use super::answer::{ForBlock, Seen};

/// One thing that is advised, or should be known.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "about", rename_all = "snake_case")]
pub enum Advice {
    /// What is cheapest for such blocks.
    Cheapest(ForBlock),
    /// A fence after every line costs more than one at the end of a block of 4 KiB.
    FenceOnce {
        /// The instruction, as tables name it.
        instruction: &'static str,
        /// With a fence after every line, ns a line.
        per_line: Interval,
        /// With one at the end of each block, ns a line.
        per_block: Interval,
    },
    /// What `clwb` does with the line that it writes back.
    Reload {
        /// Where the line is afterwards.
        line: AfterClwb,
        /// Loading it again after `clwb`, ns.
        clwb_ns: f64,
        /// Loading it when it was not flushed, ns.
        cached_ns: f64,
        /// Loading it after an evicting flush, ns.
        evicting_ns: f64,
    },
    /// What writers at full rate do to a victim; each is named once, under what its own figure
    /// says.
    Beside {
        /// The victim.
        victim: String,
        /// Every writer, in the order of the table.
        writers: Vec<Beside>,
        /// The largest slowdown that is left possible by those that were not seen to slow it; none
        /// where that is not known.
        at_most: Option<f64>,
    },
    /// What is left of a writer's harm at the slowest writer's rate: the mechanism.
    Paced {
        /// The victim.
        victim: String,
        /// The writer, as tables label it.
        writer: String,
        /// What pacing does.
        pacing: Pacing,
        /// The slowdown when paced, by its own interval.
        #[serde(serialize_with = "serialize_estimate")]
        slowdown: Estimate,
        /// The largest that is left possible when paced, all figures taken together.
        at_most: f64,
    },
    /// The CPUs shared a cache part of the time and lay apart at others.
    Moved,
}

/// Where a line is after `clwb`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum AfterClwb {
    /// In the cache, as before.
    Kept,
    /// Out of all caches.
    Evicted,
    /// In a farther cache.
    Farther,
}

/// A writer next to a victim.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Beside {
    /// The writer, as tables label it.
    pub writer: String,
    /// What is seen of it.
    pub seen: Seen,
    /// The figure of the tables.
    #[serde(serialize_with = "serialize_estimate")]
    pub slowdown: Estimate,
}

/// What holding a writer to a rate does to its harm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Pacing {
    /// It takes the harm away.
    Helps,
    /// It takes away part of it.
    HelpsInPart,
    /// The harm is not its speed alone.
    LeavesIt,
}
