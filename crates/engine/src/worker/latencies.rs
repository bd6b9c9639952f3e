//! Latencies that a worker's tasks count.

use std::cell::Cell;

use ringfence_experiment::histogram::{BUCKETS, bucket_of};
use ringfence_machine::clock::Clock;
use ringfence_workloads::Latencies;

use super::tally::Tally;
use crate::shm::Slot;

/// The latencies that a worker has counted, all of its variants together. They are in its own
/// memory, so that counting disturbs no other task.
pub struct Counted {
    counts: Box<[Cell<u64>]>,
    sum: Cell<u64>,
    clock: &'static Clock,
}

impl Counted {
    /// Nothing yet.
    pub fn new(clock: &'static Clock) -> Self {
        Self { counts: vec![Cell::new(0); BUCKETS].into(), sum: Cell::new(0), clock }
    }

    /// Answers a question with the last report that was published and all latencies of its units.
    pub fn answer(&self, slot: &Slot, tally: &Tally) {
        slot.answer_if_asked(|| {
            let sum_ns = self.clock.ns(self.sum.get()).round() as u64;
            slot.mark(tally.report, self.counts.iter().map(Cell::get), sum_ns);
        });
    }
}

impl Latencies for Counted {
    #[inline]
    fn count(&self, ticks: u64) {
        let count = &self.counts[bucket_of(self.clock.ns(ticks) as u64)];
        count.set(count.get() + 1);
        self.sum.set(self.sum.get() + ticks);
    }
}
