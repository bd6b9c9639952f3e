//! Waiting between blocks, for tasks that have a pace.

use std::time::Duration;

use ringfence_experiment::units::Rate;
use ringfence_machine::clock::Clock;

// The longest sleep at once: a waiting task must notice an order meanwhile.
const NAP: Duration = Duration::from_millis(10);
// Time lost for longer than this, while paused or to the device, is not made up for: that would be
// a burst.
const LOST_NS: f64 = 100e6;

/// A pace, kept by sleeping.
pub struct Pace {
    clock: &'static Clock,
    ns_per_byte: f64,
    due: u64,
}

impl Pace {
    /// At most so many bytes a second.
    pub fn new(rate: Rate) -> Self {
        Self { clock: Clock::host(), ns_per_byte: 1e9 / rate.0.0 as f64, due: 0 }
    }

    /// Waits until the next block is due, or for a while; whether it is due.
    pub fn wait(&self) -> bool {
        let now = self.clock.now();
        if now < self.due {
            std::thread::sleep(Duration::from_nanos(self.clock.ns(self.due - now) as u64).min(NAP));
        }
        self.clock.now() >= self.due
    }

    /// So many bytes were moved.
    pub fn count(&mut self, bytes: u64) {
        let (now, per_ns) = (self.clock.now(), 1.0 / self.clock.ns_per_tick());
        let lost = now.saturating_sub(self.due) as f64 > LOST_NS * per_ns;
        let from = if lost { now } else { self.due };
        self.due = from + (bytes as f64 * self.ns_per_byte * per_ns) as u64;
    }
}
