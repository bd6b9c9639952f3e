//! A recorded program, over and over: each thread in its own order, with nothing of the program in between.
//!
//! Threads share the CPUs that the program has, those of one CPU in the recorded order. Between CPUs that order is kept
//! where it shows: what touches a line comes after all that touched it before on other CPUs, a thread begins after all
//! that had been recorded by then, and a play after the one before. Whoever has to wait looks again every few
//! nanoseconds and leaves the core to its sibling meanwhile.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use ringfence_experiment::task::{Flushes, Loads, Trace};
use ringfence_machine::units::Bytes;
use ringfence_persist::LINE;
use ringfence_sim::{Line, Op, Ps, Region};

use super::error::SetupError;
use super::place::Place;
use crate::actor::{Tally, Task};
use crate::recorded::{Access, Recorded, What};

// Events between two looks at what else there is to do.
const PORTION: u32 = 16;
// Between two looks at what others have done.
const WAIT: Ps = Ps(20_000);

/// A program, and what its CPUs know of each other.
pub struct Played {
    recorded: Arc<Recorded>,
    // By their numbers: where each lies, and its first line there.
    files: Vec<Option<(Region, u32)>>,
    shares: Vec<Share>,
    // How often it went back to its beginning.
    returns: AtomicUsize,
    round: u64,
}

// What one CPU does.
struct Share {
    // Of the recording's accesses.
    accesses: Vec<u32>,
    waits: Vec<Wait>,
    // Where a trial begins.
    start: u64,
    // How many accesses were handed out, those of earlier plays included.
    done: AtomicU64,
}

// Before an access, one of another CPU's must have been handed out.
struct Wait {
    before: u32,
    of: usize,
    access: u32,
}

impl Played {
    /// On so many CPUs, or fewer where it has fewer threads.
    pub fn new(task: &Trace, cpus: usize, place: &mut Place) -> Result<Self, SetupError> {
        let recorded = place.recordings.get(&task.file).cloned();
        let recorded = recorded.filter(|recorded| recorded.events() > 0);
        let recorded = recorded.ok_or_else(|| SetupError::NotRead(task.file.clone()))?;
        let mut files = Vec::new();
        let mut lines = 0;
        for (file, touched) in recorded.files() {
            let bytes = Bytes(touched.len() as u64 * LINE as u64);
            files.resize(files.len().max(usize::from(file) + 1), None);
            files[usize::from(file)] = Some((place.region(&task.target, bytes)?, touched.start));
            lines += touched.len() as u64;
        }
        let mut shares = shared_out(&recorded, cpus);
        // Trials begin at places of their own.
        let begin = begin(&recorded, place.seed);
        for share in &mut shares {
            let start = share.accesses.partition_point(|access| *access < begin) as u64;
            share.start = start;
            share.done = AtomicU64::new(start);
        }
        // A part of it fills the caches where they do not hold all.
        let held = place.llc_lines().min(lines.max(1));
        let round = (recorded.events() as f64 * held as f64 / lines.max(1) as f64).ceil() as u64;
        Ok(Self { recorded, files, shares, returns: AtomicUsize::new(0), round })
    }

    /// On how many CPUs it runs.
    pub fn cpus(&self) -> usize {
        self.shares.len()
    }

    fn line(&self, access: &Access) -> Line {
        let (region, first) =
            self.files[usize::from(access.file)].expect("every file that is touched has memory");
        region.line(access.line - first)
    }
}

// An access with which an event begins.
fn begin(recorded: &Recorded, seed: u64) -> u32 {
    let accesses = recorded.accesses();
    let any = (seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) % accesses.len().max(1) as u64) as usize;
    accesses[..any].iter().rposition(|access| access.ends).map_or(0, |last| last as u32 + 1)
}

fn shared_out(recorded: &Recorded, cpus: usize) -> Vec<Share> {
    let cpus = cpus.clamp(1, recorded.threads().max(1));
    let share = |_| Share { accesses: Vec::new(), waits: Vec::new(), start: 0, done: AtomicU64::new(0) };
    let mut shares: Vec<Share> = (0..cpus).map(share).collect();
    // Who touched each line last, and which threads have begun.
    let mut last: HashMap<(u16, u32), (usize, u32)> = HashMap::new();
    let mut begun = 0;
    let mut event = 0;
    for (number, access) in recorded.accesses().iter().enumerate() {
        let own = usize::from(access.thread) % cpus;
        let here = shares[own].accesses.len() as u32;
        if cpus > 1 {
            if access.thread >= begun {
                begun = access.thread + 1;
                for other in (0..cpus).filter(|other| *other != own) {
                    if let Some(before) = (shares[other].accesses.len() as u32).checked_sub(1) {
                        shares[own].waits.push(Wait {
                            before: event_of(here, event),
                            of: other,
                            access: before,
                        });
                    }
                }
            }
            let fence = matches!(access.what, What::Sfence | What::Mfence | What::LockedElsewhere);
            if !fence
                && let Some((of, before)) = last.insert((access.file, access.line), (own, here))
                && of != own
            {
                shares[own].waits.push(Wait { before: event_of(here, event), of, access: before });
            }
        }
        shares[own].accesses.push(number as u32);
        event = if access.ends { 0 } else { event + 1 };
    }
    shares
}

// Where an event began that has had so many accesses: they are those of one thread, one behind the other.
fn event_of(here: u32, so_far: u32) -> u32 {
    here - so_far
}

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
    pub fn new(task: &Trace, played: Arc<Played>, cpu: usize, place: &mut Place) -> Result<Self, SetupError> {
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
            shares[of].done.load(Ordering::Relaxed) >= play * shares[of].accesses.len() as u64 + accesses
        };
        if within == 0 && !(0..shares.len()).all(|of| has_done(of, 0)) {
            return false;
        }
        while let Some(wait) = own.waits.get(self.wait).filter(|wait| u64::from(wait.before) <= within) {
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

    // All CPUs of a program go on together, each by itself: the first one puts everybody back.
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
