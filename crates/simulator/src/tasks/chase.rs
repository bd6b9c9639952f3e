//! A pointer chase through all lines of a footprint, in one random cycle.

use crate::hardware::{Op, Ps, Region, SetupError};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use ringfence_experiment::task::{Chase, Target};
use ringfence_persist::LINE;

use super::place::Place;
use crate::actor::{Tally, Task};

const PORTION: usize = 64;

/// The chase and where it stands.
pub struct Chaser {
    region: Region,
    // By line, the next one.
    next: Vec<u32>,
    at: u32,
    // The start of the load that is timed.
    timed: Option<Ps>,
    histogram: bool,
}

/// By line, the next one of a random cycle through all of them (Sattolo, 1986).
pub fn cycle(lines: u32, seed: u64) -> Vec<u32> {
    let mut next: Vec<u32> = (0..lines).collect();
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    for i in (1..next.len()).rev() {
        let j = ((u128::from(rng.next_u64()) * i as u128) >> 64) as usize;
        next.swap(i, j);
    }
    next
}

impl Chaser {
    pub fn new(task: &Chase, place: &mut Place) -> Result<Self, SetupError> {
        let region = place.region(&Target::Dram, task.footprint)?;
        let next = cycle((task.footprint.0 / LINE as u64) as u32, place.seed);
        Ok(Self { region, next, at: 0, timed: None, histogram: task.histogram })
    }

    fn load(&mut self) -> Op {
        let line = self.region.line(self.at);
        self.at = self.next[self.at as usize];
        Op::Load { line, dependent: true }
    }
}

impl Task for Chaser {
    fn portion(&mut self, now: Ps, tally: &Tally, ops: &mut Vec<Op>) {
        if self.histogram {
            if let Some(begun) = self.timed {
                tally.latency(now - begun);
            }
            self.timed = Some(now);
            ops.extend([self.load(), Op::Lfence, Op::Units(1)]);
            return;
        }
        for _ in 0..PORTION {
            let load = self.load();
            ops.push(load);
        }
        // A load is done when its data is there.
        ops.extend([Op::Lfence, Op::Units(PORTION as u32)]);
    }

    fn round(&self, _: bool) -> u64 {
        self.next.len() as u64
    }
}
