//! Integer multiplications in registers: a neighbour, and a victim, that touches no memory.

use std::hint::black_box;

use ringfence_experiment::task::Alu;

use crate::workload::{Latencies, Work, Workload};

const PORTION: u64 = 1024;

/// A chain of multiplications, each waiting for the one before.
pub struct Multiplier {
    value: u64,
    // Multiplications done besides for every 2^32 counted.
    extra: u64,
    owed: u64,
}

impl Multiplier {
    /// Sets it up.
    pub fn new(task: &Alu) -> Self {
        let share = task.handicap.map_or(0.0, |share| share.0.min(0.99));
        Self { value: 1, extra: (share / (1.0 - share) * 2f64.powi(32)) as u64, owed: 0 }
    }

    fn multiply(&mut self, count: u64) {
        self.value = chain(self.value, count);
    }
}

// The shift keeps the compiler from multiplying the multipliers instead. Nothing passes through
// memory: a value handed to `black_box` in every round would, and take 1 to 3 ns as the stack lies.
// One function for all callers, so that a multiplication costs the same for each of them.
#[inline(never)]
fn chain(mut value: u64, count: u64) -> u64 {
    let multiplier = black_box(6_364_136_223_846_793_005u64);
    for _ in 0..count {
        value = (value ^ (value >> 32)).wrapping_mul(multiplier);
    }
    value | 1
}

impl Workload for Multiplier {
    fn work(&mut self, amount: u64, _: &dyn Latencies) -> Work {
        let units = amount * PORTION;
        self.multiply(units);
        self.owed += units * self.extra;
        self.multiply(self.owed >> 32);
        self.owed &= 0xffff_ffff;
        Work { units, untimed: 0 }
    }
}
