//! A reader: every piece of a region once a round in random order, each read timed alone, and a sleep
//! between rounds.
//!
//! This is the measurement of the kernel's cache pseudo-locking patches ("Intel(R) Resource Director
//! Technology Cache Pseudo-Locking enabling", R. Chatre, LKML, 2017-11-13): reads of 32 bytes from all of
//! a region of 256 KiB every 2 s, while a neighbour drives its lines out of the cache, or cannot. What
//! counts as work is the time of the reads alone, so the figure, ns per read, is the mean of the
//! latencies; the sleep, the flushes and the counting are not timed. A latency holds one reading of the
//! clock, whose cost the dataset states.

mod memory;
mod order;

use std::arch::x86_64::__m128i;
use std::rc::Rc;

use ringfence_machine::clock::Clock;
use ringfence_machine::features::Features;
use ringfence_persist::{Flush, LINE, isa};

use self::memory::Mapping;
pub use self::memory::Regions;
pub use self::order::Order;
use super::{Latencies, SetupError, Work, Workload};
use ringfence_experiment::task::Read;

const PORTION: u64 = 16;

/// A reader and where it stands.
pub struct Reader {
    mapping: Rc<Mapping>,
    order: Order,
    // Pieces of this round that are still to be read.
    left: u64,
    pieces: u64,
    access: usize,
    preload: bool,
    dirty: bool,
    flush: Option<Flush>,
    interval: u64,
    // When the next round begins, on the clock.
    due: u64,
    clock: &'static Clock,
}

impl Reader {
    /// Maps the memory.
    ///
    /// # Errors
    /// Where the task makes no sense, the processor lacks an instruction, or the memory cannot be had.
    pub fn new(task: &Read, seed: u64, regions: &mut Regions) -> Result<Self, SetupError> {
        task.check().map_err(SetupError::Other)?;
        if let Some(missing) = task.missing(Some(&Features::detect())) {
            return Err(SetupError::Other(missing));
        }
        let clock = Clock::host();
        Ok(Self {
            mapping: regions.get(task)?,
            order: Order::new(task.pieces(), seed),
            left: task.pieces(),
            pieces: task.pieces(),
            access: task.access.0 as usize,
            preload: task.preload,
            dirty: task.dirty,
            flush: task.flush.0,
            interval: (task.interval.ns() as f64 / clock.ns_per_tick()) as u64,
            due: 0,
            clock,
        })
    }

    // Everything that stands between two rounds, but for the sleep.
    fn end_round(&mut self) {
        self.order.begin();
        self.left = self.pieces;
        self.treat();
        self.due = self.clock.now() + self.interval;
    }

    fn treat(&self) {
        let lines = (0..self.mapping.len()).step_by(LINE);
        for offset in lines {
            // SAFETY: inside the mapping, which nobody else refers to; `new` has seen that the
            // instruction exists.
            unsafe {
                let line = self.mapping.base().add(offset);
                if self.dirty {
                    line.write_volatile(offset as u8);
                }
                if let Some(flush) = self.flush {
                    flush.function()(line);
                }
            }
        }
        // Orders every one of them before what follows (Intel SDM volume 2A, CLFLUSHOPT and CLWB).
        isa::mfence();
    }

    fn read_through(&self) {
        for offset in (0..self.mapping.len()).step_by(LINE) {
            // SAFETY: inside the mapping.
            unsafe { self.mapping.base().add(offset).read_volatile() };
        }
    }
}

// Ticks from before a read to after it. The clock's own reading waits for every load before it and lets
// none after it begin earlier (`ringfence_machine::clock::tsc`). Loads of 16 bytes, all of one line, so
// that a line which is not cached is waited for once.
#[inline(always)]
fn timed_read(clock: &Clock, base: *const u8, piece: u64, access: usize) -> u64 {
    let from = base.wrapping_add(piece as usize * access).cast::<__m128i>();
    let start = clock.now();
    for part in 0..access / size_of::<__m128i>() {
        // SAFETY: the order names pieces of the region alone, and pieces are aligned to their size.
        // Volatile, so that the load stays where it is.
        unsafe { from.add(part).read_volatile() };
    }
    clock.now() - start
}

impl Workload for Reader {
    fn work(&mut self, amount: u64, latencies: &dyn Latencies) -> Work {
        let start = self.clock.now();
        let (mut units, mut timed) = (0, 0);
        for piece in self.order.by_ref().take((amount * PORTION).min(self.left) as usize) {
            let ticks = timed_read(self.clock, self.mapping.base(), piece, self.access);
            latencies.count(ticks);
            timed += ticks;
            units += 1;
        }
        self.left -= units;
        if self.left == 0 {
            self.end_round();
        }
        Work { units, untimed: (self.clock.now() - start).saturating_sub(timed) }
    }

    fn resumed(&mut self) {
        if self.preload {
            self.read_through();
        }
        self.end_round();
    }

    fn rest_until(&self) -> Option<u64> {
        (self.interval > 0).then_some(self.due)
    }
}

#[cfg(test)]
mod tests;
