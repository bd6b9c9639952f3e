//! Why something is not attached to.

use crate::text::printable;

use crate::attach::target::Target;

/// Why a target was not found, or is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The target does not exist.
    #[error("{target} was not found: {why}")]
    NotThere {
        /// What was asked for.
        target: Target,
        /// The reason, and what to do.
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
    /// The system, or the access to it, depends on the target.
    #[error("{target} is refused: process {pid} ({}) is part of it, and {why}", printable(name))]
    Vital {
        /// What was asked for.
        target: Target,
        /// The process.
        pid: u32,
        /// Its name.
        name: String,
        /// Why it must not be stopped.
        why: &'static str,
    },
    /// A debugger or another tracer has it already: a thread has one tracer.
    #[error(
        "{target} is refused: process {pid} ({}) is part of it, and process {tracer} ({}) traces \
         it already: end the tracer, or freeze the target with another method",
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
        "{target} is refused: process {pid} ({}), which is part of it, cannot be traced: {why}; be \
         the same user or have CAP_SYS_PTRACE, and check /proc/sys/kernel/yama/ptrace_scope, or \
         freeze it with another method",
        printable(name)
    )]
    Untraceable {
        /// What was asked for.
        target: Target,
        /// The process.
        pid: u32,
        /// Its name.
        name: String,
        /// The kernel's error.
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
