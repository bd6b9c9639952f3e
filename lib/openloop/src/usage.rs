//! What a probe has done and used so far.

use std::time::Duration;

use crate::answer::Failure;

/// What a probe has done and used since it was opened; the first questions, of
/// [`Probe::open`](crate::Probe::open), are not counted.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[non_exhaustive]
pub struct Spent {
    /// Processor time of the calling thread within [`Probe::step`](crate::Probe::step). A program
    /// that was started for `exec:` is not part of it.
    pub cpu: Duration,
    /// Questions that were due and taken up.
    pub asked: u64,
    /// Of these: those whose whole answer came.
    pub answered: u64,
    /// Those without a whole answer within the time limit.
    pub unanswered: u64,
    /// Those that failed.
    pub failed: u64,
    /// Why the last one failed.
    pub last_failure: Option<Failure>,
    /// Answers whose arrival the kernel timed; that of the others was read in user space, once the
    /// probe was awake.
    pub stamped: u64,
    /// Questions for which no connection was free when they were due.
    pub waited: u64,
    /// Times at which a question was sent again, as the service closed a connection that had
    /// answered before, and sent no byte.
    pub again: u64,
    /// Connections that the service closed, programs that ended, and connections that were given up
    /// with the question on them.
    pub closed: u64,
    /// Connections or programs that took the place of one of these. None does while others are
    /// free.
    pub reopened: u64,
    /// Number of times that more bytes came than were requested, after which the connection was
    /// closed.
    pub surplus: u64,
    /// Connections now, those included that are being opened.
    pub connections: usize,
    /// The most there were at once.
    pub most_connections: usize,
}
