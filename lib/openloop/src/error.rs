//! The reasons why a service cannot be queried.

use std::io;
use std::time::Duration;

use crate::answer::Failure;

/// The reason why a service cannot be queried. Once a probe is open, failures of single questions
/// are an [`Outcome`](crate::Outcome), not an error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProbeError {
    /// The question is invalid; the sentence says what to write.
    #[error("{0}")]
    Question(String),
    /// The host has no address.
    #[error("cannot find an address of '{host}': {source}; check the name")]
    Resolve {
        /// The name.
        host: String,
        /// The resolver's error.
        source: io::Error,
    },
    /// Connecting failed.
    #[error(
        "cannot connect to {target}: {source}; is the service running, and does it listen there?"
    )]
    Connect {
        /// The target.
        target: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// The program did not start.
    #[error("cannot start '{program}': {source}; check that it is installed and may be run")]
    Start {
        /// The first word of the command.
        program: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// Nothing came.
    #[error(
        "{target} did not answer the first question within {limit:?} ({got} bytes arrived): check \
         what is sent, and how an answer ends"
    )]
    Silent {
        /// The target.
        target: String,
        /// For how long.
        limit: Duration,
        /// What came until then.
        got: usize,
    },
    /// Nothing came until a line end was sent, too.
    #[error("{target} answers '{sent}' only after a line end: send '{sent}\\r\\n'")]
    NoLineEnd {
        /// The target.
        target: String,
        /// What was sent, escaped.
        sent: String,
    },
    /// What came first is no answer.
    #[error("the first question to {target} failed: {failure}; the answer starts with \"{came}\"")]
    First {
        /// The target.
        target: String,
        /// Why.
        failure: Failure,
        /// The first bytes, escaped.
        came: String,
    },
    /// Where an answer ends could not be learned.
    #[error("cannot find the end of an answer of {target}: {what}")]
    End {
        /// The target.
        target: String,
        /// Why, and what to do.
        what: String,
    },
    /// The kernel refused what is needed for waiting.
    #[error("cannot {what}: {source}")]
    Kernel {
        /// What was tried.
        what: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
}
