//! A reader: every piece of a region once a round in random order, each read timed alone, and a
//! sleep between rounds.
//!
//! This is the measurement of the kernel's cache pseudo-locking patches ("Intel(R) Resource
//! Director Technology Cache Pseudo-Locking enabling", R. Chatre, LKML, 2017-11-13): reads of 32
//! bytes from all of a region of 256 KiB every 2 s, while a neighbour drives its lines out of the
//! cache, or cannot. What counts as work is the time of the reads alone, so the figure, ns per
//! read, is the mean of the latencies; the sleep, the flushes and the counting are not timed. A
//! latency holds one reading of the clock, whose cost the dataset states.

mod mapping;
mod memory;
mod order;

use std::hint::black_box;
use std::rc::Rc;

use ringfence_machine::clock::Clock;
use ringfence_machine::features::Features;
use ringfence_persist::{LINE, isa};

use self::mapping::Mapping;
pub use self::memory::Regions;
pub use self::order::Order;
use super::lines::{self, Flusher, Piece};
use crate::workload::{Latencies, SetupError, Work, Workload};
use ringfence_experiment::task::{Parameters, Read};

const PORTION: u64 = 16;

/// A reader and where it stands.
pub struct Reader {
    mapping: Rc<Mapping>,
    order: Order,
    // Pieces of this round that are still to be read.
    left: u64,
    pieces: u64,
    // Of one read.
    parts: usize,
    preload: bool,
    dirty: bool,
    flush: Option<Flusher>,
    interval: u64,
    // When the next round begins, on the clock.
    due: u64,
    clock: &'static Clock,
}

impl Reader {
    /// Maps the memory.
    ///
    /// # Errors
    /// Where the task makes no sense, the processor lacks an instruction, or the memory cannot be
    /// had.
    pub fn new(task: &Read, seed: u64, regions: &mut Regions) -> Result<Self, SetupError> {
        task.check().map_err(SetupError::Other)?;
        if let Some(missing) = task.missing(Some(&Features::detect())) {
            return Err(SetupError::Other(missing.into()));
        }
        let flush = match task.flush.0 {
            None => None,
            Some(flush) => Some(
                Flusher::new(flush)
                    .ok_or_else(|| SetupError::Other(format!("this processor has no {flush}")))?,
            ),
        };
        let clock = Clock::host();
        Ok(Self {
            mapping: regions.get(task)?,
            order: Order::new(task.pieces(), seed),
            left: task.pieces(),
            pieces: task.pieces(),
            parts: task.access.0 as usize / size_of::<Piece>(),
            preload: task.preload,
            dirty: task.dirty,
            flush,
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
        for (offset, line) in self.mapping.bytes().iter().enumerate().step_by(LINE) {
            if self.dirty {
                line.set(offset as u8);
            }
            if let Some(flusher) = self.flush {
                flusher.flush(line);
            }
        }
        // Orders every one of them before what follows (Intel SDM volume 2A, CLFLUSHOPT and CLWB).
        isa::mfence();
    }

    fn read_through(&self) {
        for line in self.mapping.bytes().iter().step_by(LINE) {
            black_box(line.get());
        }
    }
}

impl Workload for Reader {
    fn work(&mut self, amount: u64, latencies: &dyn Latencies) -> Work {
        let start = self.clock.now();
        let (mut units, mut timed) = (0, 0);
        let all = lines::pieces(self.mapping.bytes());
        for piece in self.order.by_ref().take((amount * PORTION).min(self.left) as usize) {
            let from = &all[piece as usize * self.parts..][..self.parts];
            let ticks = lines::timed_read(self.clock, from);
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
