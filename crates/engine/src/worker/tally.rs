//! What a worker has done so far, as its slot shows it.

use ringfence_machine::clock::Clock;

use crate::shm::{Report, Slot};

/// Units done so far and the number of the last report.
#[derive(Default)]
pub struct Tally {
    pub number: u64,
    pub report: Report,
}

impl Tally {
    #[inline(always)]
    pub fn publish(&mut self, slot: &Slot, clock: &Clock) {
        self.publish_at(slot, clock.now());
    }

    #[inline(always)]
    pub fn publish_at(&mut self, slot: &Slot, ticks: u64) {
        self.number += 1;
        self.report.ticks = ticks;
        slot.publish(self.number, self.report);
    }
}
