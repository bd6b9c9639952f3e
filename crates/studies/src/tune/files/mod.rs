//! `tune file:DIR`: the cheapest durable method to commit records to files in a folder, confirmed,
//! as a policy file.
//!
//! Three stages. The *costs* of a batch of one record by every call and layout; from them
//! [`choice`] takes the way. What a longer *batch* saves in that way. The *confirmation* measures,
//! on fresh trials, the choice against what most programs do: `fdatasync` after each record, at the
//! end of a file that grows. Only ways that the kernel promises to be durable are measured.

pub mod choice;
mod experiments;
mod run;

use std::path::PathBuf;

use ringfence_experiment::task::{Layout, Sync};
use ringfence_machine::units::Bytes;

pub use experiments::LOG;
pub use run::{Compared, Compares, Tuned, check, run};

/// The question of `tune file:DIR`.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// The folder, by an absolute path that is text.
    pub dir: PathBuf,
    /// Bytes of a record.
    pub record: Bytes,
    /// Bytes of the log; `None`: [`LOG`], or room for two of the longest batches.
    pub size: Option<Bytes>,
    /// Calls to choose from, in addition to that of the plain method.
    pub syncs: Vec<Sync>,
    /// Layouts to choose from, in addition to that of the plain method.
    pub layouts: Vec<Layout>,
    /// Trials of each stage, at least 2; `None`: 3, and of the confirmation 8. Of that no fewer are
    /// measured than a figure takes
    /// ([`FEWEST_TRIALS`](ringfence_analysis::estimate::FEWEST_TRIALS)).
    pub trials: Option<u32>,
    /// Seed of everything random.
    pub seed: u64,
}

/// Records that one sync makes durable, which are compared.
pub const BATCHES: [u32; 4] = [1, 4, 16, 64];
