//! `tune`: the cheapest method to make stores durable on a target, confirmed, as a policy file.
//!
//! The *costs* of every flush instruction and of non-temporal stores are measured over block sizes
//! and batches; from them [`choice`] takes the instruction and the threshold that are cheapest over
//! all sizes. The *confirmation* measures, on fresh trials, what that gains over PMDK's fixed rule
//! wherever the two differ. Where a victim is given, [`crate::prove`] holds a writer by that policy
//! against the budget and, if it must, finds the gentler instruction or the pace that keeps it.
//! Last, the *prices* of single instructions are measured, for the report of instructions that are
//! not needed.

pub mod choice;
mod experiments;
pub mod files;
mod prices;
mod run;

use ringfence_machine::units::Bytes;
use serde::{Deserialize, Serialize};

pub use run::{Tuned, check, run};

/// The policy's copy in the folder of its datasets.
pub const POLICY: &str = "policy.toml";

use ringfence_experiment::PlacementKind;
use ringfence_experiment::task::{OneTask, Target};
use ringfence_experiment::units::Share;

/// The question of `tune`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Question {
    /// Where stores go.
    pub target: Target,
    /// Bytes of it that are written over and over.
    pub size: Bytes,
    /// A task that must not be slowed down beyond the budget.
    pub victim: Option<OneTask>,
    /// The slowdown of the victim that is allowed.
    pub budget: Share,
    /// The block that is written next to the victim.
    pub block: Bytes,
    /// Where the writer runs relative to the victim.
    pub placement: PlacementKind,
    /// Trials of the costs and of the confirmation; no fewer are measured than a figure takes
    /// ([`FEWEST_TRIALS`](ringfence_analysis::estimate::FEWEST_TRIALS)).
    #[serde(alias = "lives")]
    pub trials: u32,
    /// Seed of everything random.
    pub seed: u64,
}

/// The block sizes at which methods are compared: from a line to where nothing changes any more.
pub const BLOCKS: [Bytes; 11] = [
    Bytes(64),
    Bytes(128),
    Bytes(256),
    Bytes(512),
    Bytes::kib(1),
    Bytes::kib(2),
    Bytes::kib(4),
    Bytes::kib(16),
    Bytes::kib(64),
    Bytes::kib(256),
    Bytes::mib(1),
];

/// Blocks between two fences that are compared, at the smallest block.
pub const BATCHES: [u32; 5] = [1, 2, 4, 8, 16];
