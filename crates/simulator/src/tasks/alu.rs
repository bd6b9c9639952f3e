//! Multiplications: the ports and nothing else.

use crate::hardware::{Op, Ps};
use ringfence_experiment::task::Alu;

use super::place::Place;
use crate::actor::{Tally, Task};

const PORTION: u32 = 1024;

/// A chain of multiplications.
pub struct Multiplier {
    portion: Ps,
}

impl Multiplier {
    pub fn new(task: &Alu, place: &Place) -> Self {
        let share = task.handicap.map_or(0.0, |share| share.0.min(0.99));
        let ns = f64::from(PORTION) * place.description.processor.multiply_ns / (1.0 - share);
        Self { portion: Ps((ns * 1e3) as u64) }
    }
}

impl Task for Multiplier {
    fn portion(&mut self, _: Ps, _: &Tally, ops: &mut Vec<Op>) {
        ops.extend([Op::Compute(self.portion), Op::Units(PORTION)]);
    }

    fn round(&self, _: bool) -> u64 {
        0
    }
}
