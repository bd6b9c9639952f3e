//! The thread that thaws when the thread that froze does not.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::hand::Hand;
use super::options::{FreezeError, Options};
use crate::attach::budget::Budget;

/// Until it is tried again to thaw what did not let itself be thawed.
const AGAIN: Duration = Duration::from_millis(100);

pub struct State {
    pub hand: Hand,
    pub budget: Budget,
    /// Since when it is frozen, or may be.
    pub frozen: Option<Instant>,
    /// For how long it was frozen when the watchdog had to thaw it.
    pub forced: Option<Duration>,
    pub ending: bool,
}

pub struct Shared {
    state: Mutex<State>,
    pub changed: Condvar,
    begun: Instant,
    options: Options,
}

impl Shared {
    pub fn new(state: State, options: Options) -> Self {
        Self { state: Mutex::new(state), changed: Condvar::new(), begun: Instant::now(), options }
    }

    /// A thread that panicked while holding it has left what is frozen to be thawed.
    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn since_begin(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.begun)
    }

    /// Thaws what is frozen; for how long it was.
    pub fn thaw(&self, state: &mut State) -> Result<Option<Duration>, FreezeError> {
        let Some(begun) = state.frozen else { return Ok(None) };
        state.hand.thaw()?;
        let now = Instant::now();
        state.frozen = None;
        state.budget.froze(self.since_begin(begun), self.since_begin(now));
        Ok(Some(now - begun))
    }

    pub fn watch(&self) {
        let mut state = self.lock();
        let mut retry = None;
        while !state.ending {
            let due = state.frozen.map(|begun| begun + self.options.longest + self.options.margin);
            let Some(due) = due.map(|due| retry.map_or(due, |retry| due.max(retry))) else {
                retry = None;
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let left = due.saturating_duration_since(Instant::now());
            if !left.is_zero() {
                let waited = self.changed.wait_timeout(state, left);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
                continue;
            }
            let said = match self.thaw(&mut state) {
                Ok(after) => {
                    state.forced = after;
                    format!(
                        "the target was frozen for {} ms and not thawed in time, so the watchdog \
                         thawed it",
                        after.unwrap_or_default().as_millis()
                    )
                }
                Err(error) => {
                    retry = Some(Instant::now() + AGAIN);
                    format!("the target cannot be thawed; trying again: {error}")
                }
            };
            drop(state);
            if let Some(say) = &self.options.said {
                say(&said);
            }
            state = self.lock();
        }
    }
}
