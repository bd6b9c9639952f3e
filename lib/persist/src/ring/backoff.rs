//! How one side of a ring waits for the other.

use std::time::{Duration, Instant};

/// Waiting for the other side: 200 rounds of `pause`, 100 of yielding, then sleeps from 50 us to 1
/// ms.
pub(super) struct Backoff {
    rounds: u32,
    end: Option<Instant>,
}

impl Backoff {
    pub(super) fn forever() -> Self {
        Self { rounds: 0, end: None }
    }

    pub(super) fn until(patience: Duration) -> Self {
        Self { rounds: 0, end: Instant::now().checked_add(patience) }
    }

    /// False when patience is at an end.
    pub(super) fn wait(&mut self) -> bool {
        self.rounds = self.rounds.saturating_add(1);
        match self.rounds {
            0..200 => {
                std::hint::spin_loop();
                return true;
            }
            200..300 => std::thread::yield_now(),
            rounds => std::thread::sleep(Duration::from_micros(50 << (rounds - 300).min(4))),
        }
        self.end.is_none_or(|end| Instant::now() < end)
    }
}
