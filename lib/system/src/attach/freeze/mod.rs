//! Freezing for a moment, and thawing whatever happens.

mod hand;
mod options;
mod pause;
mod tracer;
mod watchdog;

use std::sync::{Arc, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::changes::{Changes, Restored};
use crate::root::FsRoot;

use crate::attach::budget::{Budget, NotYet};
use crate::attach::find::{Found, Method};
use hand::Hand;
pub use options::{FreezeError, Options, Took};
use watchdog::{Shared, State};

/// Freezes and thaws one target.
///
/// Each freeze is in the journal of changes before it begins. Dropping it thaws. When the program
/// is killed, the next program thaws ([`crate::changes::put_back_left`]). With [`Method::Ptrace`]
/// the kernel thaws at once then, and there is no journal.
pub struct Freezer {
    shared: Arc<Shared>,
    watchdog: Option<JoinHandle<()>>,
}

impl Freezer {
    /// Begins the journal. Nothing is frozen. `method` is one of those that were found, or
    /// [`Method::Ptrace`].
    ///
    /// # Errors
    /// Where no journal can be written, or limits make no sense; or where one of the target's
    /// threads does not let itself be traced and is to be.
    pub fn new(
        root: &FsRoot,
        found: Found,
        method: Method,
        options: Options,
    ) -> Result<Self, FreezeError> {
        let budget = Budget::new(options.longest, options.share, Duration::ZERO)?;
        let purpose = format!("freezing {} for a moment", found.target);
        let is_traced = method == Method::Ptrace;
        let changes =
            if is_traced { None } else { Some(Changes::begin(root, &purpose, &options.changes)?) };
        let processes = found.processes.clone();
        let mut hand = Hand::new(root, found, method, changes);
        if is_traced {
            hand.try_tracing(&processes, Instant::now() + options.longest)?;
        }
        let state = State { hand, budget, frozen: None, forced: None, ending: false };
        let shared = Arc::new(Shared::new(state, options));
        let watched = shared.clone();
        let thread = std::thread::Builder::new().name("thaws in time".into());
        let watchdog = thread.spawn(move || watched.watch());
        // Without a watchdog nothing is frozen.
        let watchdog = watchdog.map_err(|source| crate::changes::Error::Refused {
            tried: "starting the thread that thaws in time".into(),
            source,
        })?;
        Ok(Self { shared, watchdog: Some(watchdog) })
    }

    /// Freezes the target for up to `long`, which counts from the first process that is stopped,
    /// and returns once all are stopped. What was stopped or frozen before stays so afterwards.
    ///
    /// # Errors
    /// Where it may not be frozen so long or so soon; where it does not stand within `limit`, or
    /// the longest freeze; and what the kernel or the journal refuse. It resumes then. Should it
    /// not let itself be thawed either, the watchdog tries on.
    pub fn freeze(&mut self, long: Duration, limit: Duration) -> Result<Frozen<'_>, FreezeError> {
        let mut state = self.shared.lock();
        // By force, and perhaps not yet.
        self.shared.thaw(&mut state)?;
        let begun = Instant::now();
        let at = self.shared.since_begin(begun);
        state.budget.may_freeze(at, long)?;
        let limit = limit.min(state.budget.longest());
        state.frozen = Some(begun);
        state.forced = None;
        match state.hand.freeze(begun + limit, limit) {
            Ok(took) => {
                self.shared.changed.notify_all();
                drop(state);
                Ok(Frozen { freezer: self, begun, long, took, open: true })
            }
            Err(error) => {
                // The first error says more than what comes of it.
                let _ = self.shared.thaw(&mut state);
                self.shared.changed.notify_all();
                Err(error)
            }
        }
    }

    /// When a freeze of this length may begin, if not now.
    ///
    /// # Errors
    /// How long that is from now, or that it never may.
    pub fn may_freeze(&self, long: Duration) -> Result<(), NotYet> {
        let now = self.shared.since_begin(Instant::now());
        self.shared.lock().budget.may_freeze(now, long).map_err(|why| match why {
            NotYet::Until(then) => NotYet::Until(then.saturating_sub(now)),
            other => other,
        })
    }

    /// For how long it was frozen in all, and the share of the time since the beginning that this
    /// is.
    pub fn frozen(&self) -> (Duration, f64) {
        let state = self.state();
        (state.budget.frozen(), state.budget.share(self.shared.since_begin(Instant::now())))
    }

    /// For how long it was frozen at the longest: the program that froze it may have been kept from
    /// running.
    pub fn longest_frozen(&self) -> Duration {
        self.state().budget.longest_frozen()
    }

    /// How many freezes were longer than the longest that is allowed by [`crate::attach::OVERRUN`]
    /// or more.
    pub fn overruns(&self) -> u32 {
        self.state().budget.overruns()
    }

    /// Thaws, and ends the journal.
    ///
    /// # Errors
    /// What could not be restored; the journal stays then, and the next program tries again.
    pub fn end(mut self) -> Result<Restored, FreezeError> {
        self.stop_watching();
        let mut state = self.state();
        self.shared.thaw(&mut state)?;
        Ok(state.hand.end()?)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.lock()
    }

    fn stop_watching(&mut self) {
        self.state().ending = true;
        self.shared.changed.notify_all();
        if let Some(watchdog) = self.watchdog.take() {
            let _ = watchdog.join();
        }
    }
}

impl Drop for Freezer {
    fn drop(&mut self) {
        self.stop_watching();
        let mut state = self.state();
        // What fails here is still in the journal.
        let _ = self.shared.thaw(&mut state);
    }
}

/// A frozen target. Dropping it thaws.
pub struct Frozen<'a> {
    freezer: &'a Freezer,
    begun: Instant,
    long: Duration,
    took: Took,
    open: bool,
}

/// How a freeze ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thawed {
    /// For how long it was frozen, from the first process that was stopped.
    pub after: Duration,
    /// Whether the watchdog had thawed it by then: from that moment on it ran.
    pub by_force: bool,
}

impl Frozen<'_> {
    /// What took hold.
    pub fn took(&self) -> &Took {
        &self.took
    }

    /// The rest of the requested time.
    pub fn left(&self) -> Duration {
        self.long.saturating_sub(self.begun.elapsed())
    }

    /// Thaws.
    ///
    /// # Errors
    /// What the kernel or the journal refuse; the watchdog tries on.
    pub fn thaw(mut self) -> Result<Thawed, FreezeError> {
        self.open = false;
        let mut state = self.freezer.state();
        if let Some(after) = state.forced.take() {
            return Ok(Thawed { after, by_force: true });
        }
        let thawed = self.freezer.shared.thaw(&mut state);
        self.freezer.shared.changed.notify_all();
        Ok(Thawed { after: thawed?.unwrap_or_default(), by_force: false })
    }
}

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        if self.open {
            let _ = self.freezer.shared.thaw(&mut self.freezer.state());
            self.freezer.shared.changed.notify_all();
        }
    }
}
