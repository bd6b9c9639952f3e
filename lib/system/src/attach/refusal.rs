//! Why something is not attached to.

use crate::text::printable;

use crate::attach::target::Target;

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
    /// A debugger or another tracer has it already: a thread has one tracer.
    #[error(
        "{target} is refused: process {pid} ({}) is part of it, and process {tracer} ({}) traces \
         it already: end that, or freeze it with another method",
        printable(name),
        printable(tracer_name)
    )]
    Traced {
        /// What was asked for.
        target: Target,
        /// The process.
        pid: u32,
        /// Its name.
        name: String,
        /// The process that traces it.
        tracer: u32,
        /// That one's name.
        tracer_name: String,
    },
    /// The kernel does not let this program trace it.
    #[error(
        "{target} is refused: tracing process {pid} ({}), which is part of it: {why}; it takes \
         CAP_SYS_PTRACE or the same user, and a /proc/sys/kernel/yama/ptrace_scope that allows it, \
         or freeze it with another method",
        printable(name)
    )]
    Untraceable {
        /// What was asked for.
        target: Target,
        /// The process.
        pid: u32,
        /// Its name.
        name: String,
        /// What the kernel said.
        why: String,
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
