//! Why something is not attached to.

use ringfence_sysfs::text::printable;

use crate::target::Target;

/// Why a target was not found, or is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// There is no such thing.
    #[error("{target} is not there: {why}")]
    NotThere {
        /// What was asked for.
        target: Target,
        /// What was looked for, and what to do.
        why: String,
    },
    /// Several things go by that name.
    #[error("{target} could be {}: name one of them", printable(&found.join(" or ")))]
    Ambiguous {
        /// What was asked for.
        target: Target,
        /// What each would have to be called.
        found: Vec<String>,
    },
    /// The system, or the way in, depends on it.
    #[error("{target} is refused: process {pid} ({}) is part of it, and {why}", printable(name))]
    Vital {
        /// What was asked for.
        target: Target,
        /// The process.
        pid: u32,
        /// Its name.
        name: String,
        /// Why it may not stand still.
        why: &'static str,
    },
    /// What belongs to it cannot be known.
    #[error("{target} is refused: {why}")]
    Unknown {
        /// What was asked for.
        target: Target,
        /// Why not, and what to do.
        why: &'static str,
    },
}
