//! A recorded program, over and over: each thread in its own order, with nothing of the program in
//! between.
//!
//! Threads share the CPUs that the program has, those of one CPU in the recorded order. Between
//! CPUs that order is kept where it shows: what touches a line comes after all that touched it
//! before on other CPUs, a thread begins after all that had been recorded by then, and a play after
//! the one before. A thread that has to wait checks again every few nanoseconds and leaves the core
//! to its sibling meanwhile.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::hardware::{Line, Op, Ps};
use ringfence_experiment::task::{Flushes, Loads, Trace};
use ringfence_persist::LINE;

use super::error::SetupError;
use super::place::Place;
use super::program::{Played, Share};
use crate::actor::{Tally, Task};
use crate::recordings::{Access, What};

// Events between two looks at what else there is to do.
const PORTION: u32 = 16;
// Between two looks at what others have done.
const WAIT: Ps = Ps(20_000);

/// One CPU of a program.
pub struct Player {
    played: Arc<Played>,
    cpu: usize,
    loads: Loads,
    flush: Flushes,
    caches_survive: bool,
    // For locked instructions elsewhere.
    own: Line,
    // As `Share::done`.
    at: u64,
    // Of the share's waits, the next one.
    wait: usize,
    loaded: bool,
    returns: usize,
}

impl Player {
    pub fn new(
        task: &Trace,
        played: Arc<Played>,
        cpu: usize,
        place: &mut Place,
    ) -> Result<Self, SetupError> {
        let own = place.setup.region(0, LINE as u64)?.line(0);
        let mut this = Self {
            played,
            cpu,
            loads: task.loads,
            flush: task.flush,
            caches_survive: place.description.processor.eadr,
            own,
            at: 0,
            wait: 0,
            loaded: false,
            returns: 0,
        };
        this.go_to(this.share().start);
        Ok(this)
    }

    fn share(&self) -> &Share {
        &self.played.shares[self.cpu]
    }

    fn go_to(&mut self, at: u64) {
        let within = at % self.share().accesses.len() as u64;
        self.wait = self.share().waits.partition_point(|wait| u64::from(wait.before) < within);
        self.at = at;
    }

    // Whether the next event may begin.
    fn may_go_on(&mut self) -> bool {
        let shares = &self.played.shares;
        let own = &shares[self.cpu];
        let len = own.accesses.len() as u64;
        let (play, within) = (self.at / len, self.at % len);
        let has_done = |of: usize, accesses: u64| {
            shares[of].done.load(Ordering::Relaxed)
                >= play * shares[of].accesses.len() as u64 + accesses
        };
        if within == 0 && !(0..shares.len()).all(|of| has_done(of, 0)) {
            return false;
        }
        while let Some(wait) =
            own.waits.get(self.wait).filter(|wait| u64::from(wait.before) <= within)
        {
            if !has_done(wait.of, u64::from(wait.access) + 1) {
                return false;
            }
            self.wait += 1;
        }
        true
    }

    fn event(&mut self, ops: &mut Vec<Op>) {
        let played = self.played.clone();
        let accesses = &played.shares[self.cpu].accesses;
        loop {
            let within = (self.at % accesses.len() as u64) as usize;
            let access = &played.recorded.accesses()[accesses[within] as usize];
            self.at += 1;
            if within + 1 == accesses.len() {
                self.wait = 0;
            }
            self.access(&played, access, ops);
            if access.ends {
                return;
            }
        }
    }

    fn access(&mut self, played: &Played, access: &Access, ops: &mut Vec<Op>) {
        let dependent = self.loads == Loads::Dependent;
        // As in `memory`: a store leaves a processor after the loads before it.
        if access.what != What::Load && std::mem::take(&mut self.loaded) {
            ops.push(Op::Lfence);
        }
        ops.push(match access.what {
            What::Load => {
                self.loaded = dependent;
                Op::Load { line: played.line(access), dependent }
            }
            What::Store => Op::Store(played.line(access)),
            What::StoreWhole => Op::StoreWhole(played.line(access)),
            What::NtStore => Op::NtStore { line: played.line(access), bytes: access.bytes },
            What::Flush(recorded) => match self.flush.instead_of(recorded, self.caches_survive) {
                Some(kind) => Op::Flush { kind, line: played.line(access) },
                None => return,
            },
            What::Sfence => Op::Sfence,
            What::Mfence => Op::Mfence,
            What::Locked => Op::Locked(played.line(access)),
            What::LockedElsewhere => Op::Locked(self.own),
        });
    }
}

impl Task for Player {
    fn portion(&mut self, _: Ps, _: &Tally, ops: &mut Vec<Op>) {
        // What was handed out before has been taken.
        self.share().done.store(self.at, Ordering::Relaxed);
        let most = if self.played.shares.len() > 1 { 1 } else { PORTION };
        let mut events = 0;
        while events < most && self.may_go_on() {
            self.event(ops);
            events += 1;
        }
        ops.push(if events > 0 { Op::Units(events) } else { Op::Rest(WAIT) });
    }

    fn round(&self, _: bool) -> u64 {
        self.played.round
    }

    // All CPUs of a program resume together, each by itself: the first one resets all of them.
    fn resumed(&mut self) {
        self.returns += 1;
        if self.played.returns.fetch_max(self.returns, Ordering::Relaxed) < self.returns {
            for share in &self.played.shares {
                share.done.store(share.start, Ordering::Relaxed);
            }
        }
        self.loaded = false;
        self.go_to(self.share().start);
    }

    fn goes_back(&self) -> bool {
        true
    }
}
