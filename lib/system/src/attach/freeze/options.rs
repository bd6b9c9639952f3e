//! Options and results of a freeze.

use std::sync::Arc;
use std::time::Duration;

use crate::attach::budget::{BadBudget, LONGEST, NotYet, SHARE};
use crate::attach::find::Method;
use crate::attach::refusal::Refusal;

/// How freezes are kept short and rare.
#[derive(Clone)]
pub struct Options {
    /// The longest freeze, from 1 ms to 10 s: counted from the moment when the first process is
    /// stopped.
    pub longest: Duration,
    /// The share of its time that the target may be frozen, above 0 and at most 0.9.
    pub share: f64,
    /// The time beyond the longest freeze after which the watchdog thaws the target.
    pub margin: Duration,
    /// Called by the thread that thaws by force, with one sentence that says so.
    #[allow(clippy::type_complexity)]
    pub said: Option<Arc<dyn Fn(&str) + Send + Sync>>,
    /// Where the journal lies, and what watches it.
    pub changes: crate::changes::Options,
}

impl Default for Options {
    fn default() -> Self {
        let changes = crate::changes::Options::default();
        Self {
            longest: LONGEST,
            share: SHARE,
            margin: Duration::from_millis(50),
            said: None,
            changes,
        }
    }
}

/// Why something was not frozen, or not thawed.
#[derive(Debug, thiserror::Error)]
pub enum FreezeError {
    /// Not now.
    #[error(transparent)]
    NotYet(#[from] NotYet),
    /// Such limits make no sense.
    #[error(transparent)]
    BadBudget(#[from] BadBudget),
    /// The journal, or what the kernel refused.
    #[error(transparent)]
    Changes(#[from] crate::changes::Error),
    /// It has become something that is not a target.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Others are in the control group by now, or some of the target are not.
    #[error("{method} would now stop more than the target, or only a part of it: find it again")]
    Changed {
        /// How it was to be frozen.
        method: Method,
    },
    /// It holds no process any more.
    #[error("the target has ended")]
    Ended,
    /// It did not stop in time, and is running again.
    #[error("the target did not stop within {} ms: {what}; it is running again", limit.as_millis())]
    Moving {
        /// How long that was tried.
        limit: Duration,
        /// What still moved.
        what: String,
    },
}

/// What took hold when something was frozen.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Took {
    /// The time from the first request to stop until the last process was stopped.
    pub time: Duration,
    /// How many processes were stopped; none where a group was frozen.
    pub stopped: usize,
    /// How many were stopped before, by another process, and stay so.
    pub stood: usize,
    /// Whether all of it was frozen before, by another process: it stays so.
    pub was_frozen: bool,
}
