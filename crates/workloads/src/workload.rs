//! What a workload is.

use ringfence_persist::{Pages, RegionError, Request};

/// What was done in one call of [`Workload::work`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Work {
    /// Units of work.
    pub units: u64,
    /// Clock ticks spent on preparations that are not part of the work.
    pub untimed: u64,
}

/// Takes the latencies of single operations, where a workload was asked for them.
pub trait Latencies {
    /// Counts one latency, in clock ticks.
    fn count(&self, ticks: u64);
}

/// A built-in workload.
pub trait Workload {
    /// Does `amount` times its least portion of work. The caller chooses the amount such that a
    /// call takes some tens of microseconds.
    fn work(&mut self, amount: u64, latencies: &dyn Latencies) -> Work;

    /// Called when it resumes after a pause.
    fn resumed(&mut self) {}

    /// Called when it has paused, before any other task resumes: it ends what it has left under
    /// way, so that the next window does not have it.
    fn paused(&mut self) {}

    /// Called before its first work where it is to stop at a limit of its own, which is a failure
    /// otherwise.
    fn stop_at_limit(&mut self) {}

    /// Whether it has stopped at its limit, until it resumes after a pause.
    fn spent(&self) -> bool {
        false
    }

    /// When it wants to resume, on the clock of [`ringfence_machine::clock::Clock::host`]: until
    /// then the caller sleeps instead of calling [`Workload::work`], and that time is not work.
    /// `None` for those that work all the time.
    fn rest_until(&self) -> Option<u64> {
        None
    }

    /// For work of which several units may be under way at once, and for long: what is counted next
    /// is all that was due until this time on the clock, and nothing that was due later, until
    /// [`Workload::is_cut`].
    fn cut(&mut self, at: u64) {
        let _ = at;
    }

    /// Whether all that was due until the last cut has been counted.
    fn is_cut(&self) -> bool {
        true
    }

    /// What went wrong so far, in a sentence, where that spoils the work.
    fn failure(&self) -> Option<&str> {
        None
    }

    /// What should be known of how it worked, in sentences; asked for when it has paused.
    fn told(&self) -> Option<String> {
        None
    }

    /// ns per unit, measured here and now in some milliseconds, where that tells which cache
    /// answers; called once, at the start, while no other task runs. `None` where it tells nothing.
    fn alone_ns(&mut self) -> Option<f64> {
        None
    }

    /// Units in one round over what it touches, where caches take rounds to settle; 0 where not.
    fn settle_units(&self) -> u64 {
        0
    }
}

/// Why a workload cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// No memory of the kind asked for.
    #[error(transparent)]
    Region(#[from] RegionError),
    /// Something else, in a sentence.
    #[error("{0}")]
    Other(String),
}

impl SetupError {
    /// Whether what was asked for cannot be had on this machine as it is.
    pub fn is_usage(&self) -> bool {
        match self {
            SetupError::Region(error) => error.is_usage(),
            SetupError::Other(_) => true,
        }
    }
}

/// Memory of its own, of these pages.
pub(crate) fn memory(len: u64, pages: Pages) -> Result<ringfence_persist::Region, RegionError> {
    let len = usize::try_from(len)
        .map_err(|_| RegionError::Request(format!("{len} bytes cannot be mapped")))?;
    ringfence_persist::Region::map(&Request { pages, ..Request::dram(len) })
}
