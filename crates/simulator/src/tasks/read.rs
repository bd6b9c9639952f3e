//! Reads of every piece of a region once a round in random order, each timed alone, and a sleep
//! between rounds.

use std::time::Duration;

use crate::hardware::{Op, Ps, Region, SetupError};
use ringfence_experiment::task::Read;
use ringfence_persist::{Flush, LINE};
use ringfence_workloads::read::Order;

use super::place::Place;
use crate::actor::{Tally, Task};
use crate::spans;

// A sleep in parts, so that a pause ends it.
const NAP: Ps = Ps::from_ns(10_000);
// A read is reckoned at so much when asking whether a window holds a round, as for measured ones.
const READ: Duration = Duration::from_micros(1);

/// A reader and where it stands.
pub struct Reader {
    region: Region,
    order: Order,
    // Pieces of this round that are still to be read.
    left: u64,
    pieces: u64,
    pieces_per_line: u64,
    preload: bool,
    // Memory was touched once when it was mapped.
    touched: bool,
    dirty: bool,
    flush: Option<Flush>,
    interval: Duration,
    doing: Doing,
    // The start of the read that is timed.
    timed: Option<Ps>,
    // Since when nothing was timed.
    since: Ps,
}

enum Doing {
    // It continues after a pause.
    Resumed,
    // Lines are stored to and flushed; then it sleeps.
    Treating,
    Sleeping(Ps),
    Reading,
}

impl Reader {
    pub fn new(task: &Read, place: &mut Place) -> Result<Self, SetupError> {
        Ok(Self {
            region: place.read(&task.memory, task.size)?,
            order: Order::new(task.pieces(), place.seed),
            left: task.pieces(),
            pieces: task.pieces(),
            pieces_per_line: LINE as u64 / task.access.0,
            preload: task.preload,
            touched: false,
            dirty: task.dirty,
            flush: task.flush.0,
            interval: spans::sleep(Duration::from_nanos(task.interval.ns())),
            doing: Doing::Resumed,
            timed: None,
            since: Ps::ZERO,
        })
    }

    // Everything that stands between two rounds, but for the sleep.
    fn end_round(&mut self, ops: &mut Vec<Op>) {
        self.order.begin();
        self.left = self.pieces;
        for line in (0..self.region.lines()).map(|line| self.region.line(line)) {
            if self.dirty {
                ops.push(Op::Store(line));
            }
            if let Some(kind) = self.flush {
                ops.push(Op::Flush { kind, line });
            }
        }
        ops.push(Op::Mfence);
        self.doing = Doing::Treating;
    }

    fn resume(&mut self, now: Ps, tally: &Tally, ops: &mut Vec<Op>) {
        // A report of the present, so that no window begins with one from before the pause.
        tally.untimed(now - self.since);
        self.since = now;
        ops.push(Op::Units(0));
        if self.preload || !self.touched {
            self.touched = true;
            let loads = (0..self.region.lines())
                .map(|line| Op::Load { line: self.region.line(line), dependent: false });
            ops.extend(loads);
            ops.push(Op::Lfence);
        }
        self.end_round(ops);
    }

    fn read(&mut self, now: Ps, tally: &Tally, ops: &mut Vec<Op>) {
        let Some(piece) = self.order.next().filter(|_| self.left > 0) else {
            return self.end_round(ops);
        };
        self.left -= 1;
        tally.untimed(now - self.since);
        self.timed = Some(now);
        let line = self.region.line((piece / self.pieces_per_line) as u32);
        ops.extend([Op::Load { line, dependent: false }, Op::Lfence, Op::Units(1)]);
    }
}

impl Task for Reader {
    fn portion(&mut self, now: Ps, tally: &Tally, ops: &mut Vec<Op>) {
        if let Some(begun) = self.timed.take() {
            tally.latency(now - begun);
            self.since = now;
        }
        if let Doing::Treating = self.doing {
            self.doing = Doing::Sleeping(now + Ps::from_ns(self.interval.as_nanos() as u64));
        }
        match self.doing {
            Doing::Resumed => self.resume(now, tally, ops),
            Doing::Sleeping(until) if now < until => ops.push(Op::Rest((until - now).min(NAP))),
            _ => {
                self.doing = Doing::Reading;
                self.read(now, tally, ops);
            }
        }
    }

    fn round(&self, _: bool) -> u64 {
        // What it brings into caches is gone after each sleep, or it is not: that is what it
        // measures.
        0
    }

    fn resumed(&mut self) {
        // A pause is no latency.
        self.timed = None;
        self.doing = Doing::Resumed;
    }

    fn least_window(&self) -> Duration {
        self.interval + READ.saturating_mul(u32::try_from(self.pieces).unwrap_or(u32::MAX))
    }
}
