//! What became of a question.

use std::fmt;

use rustix::io::Errno;

/// What became of one question. Every question that was due yields exactly one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// When the question was due: ns on `CLOCK_MONOTONIC`.
    pub due_ns: u64,
    /// From when the question was due until the last byte of its answer arrived, in ns. Where none
    /// came: until that was known, which is at least the time limit for [`Outcome::Unanswered`].
    pub latency_ns: u64,
    /// How late the probe itself was, in ns: from when the question was due until the probe took it
    /// up. Waiting for a free connection is not part of it; that is the service's doing.
    pub lag_ns: u64,
    /// Whether it was answered.
    pub outcome: Outcome,
}

/// Whether a question was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The whole answer came: the latency is one.
    Answered,
    /// No whole answer came within the time limit. The latency is a lower bound, and belongs into
    /// quantiles.
    Unanswered,
    /// What came is no answer. The time is not a latency.
    Failed(Failure),
}

/// Why a question failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// A status of HTTP from 400 on.
    Status(u16),
    /// The service closed the connection in the middle of an answer, or before one on a fresh
    /// connection.
    Closed,
    /// Connecting, sending or receiving failed.
    Io(Errno),
    /// More bytes came than the answer has.
    TooLong,
    /// The answer does not begin as the first ones did: an error message, say.
    Unlike,
    /// The service answered with an error: Redis's protocol marks these.
    Refused,
    /// What came is not Redis's protocol.
    NotRedis,
    /// What came is not HTTP/1; the text says what is wrong with it.
    Unreadable(&'static str),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(status) => write!(f, "the service answered with status {status}"),
            Self::Closed => f.write_str("the service closed the connection without an answer"),
            Self::Io(errno) => write!(f, "{}", std::io::Error::from(*errno)),
            Self::TooLong => f.write_str(
                "more bytes arrived than an answer has: if its length changes, give the bytes that \
                 it ends with",
            ),
            Self::Unlike => f.write_str("the answer does not start like the first ones"),
            Self::Refused => f.write_str("the service answered with an error"),
            Self::NotRedis => f.write_str("the answer is not Redis's protocol (RESP)"),
            Self::Unreadable(what) => write!(f, "the answer is not HTTP/1: {what}"),
        }
    }
}
