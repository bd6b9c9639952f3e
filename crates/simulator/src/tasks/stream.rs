//! Sequential reading and writing: a[i] = b[i] + c[i].

use crate::hardware::{Op, Ps, Region, SetupError};
use ringfence_experiment::task::{Stream, Target};
use ringfence_machine::units::Bytes;
use ringfence_persist::LINE;

use super::place::Place;
use crate::actor::{Tally, Task};

// Lines of each array.
const PORTION: u32 = 64;

/// Three arrays, walked in step.
pub struct Streamer {
    arrays: [Region; 3],
    at: u32,
    settle: u64,
}

impl Streamer {
    pub fn new(task: &Stream, place: &mut Place) -> Result<Self, SetupError> {
        let portion = u64::from(PORTION) * LINE as u64;
        let each = Bytes((task.size.0 / 3).next_multiple_of(portion));
        let mut array = || place.region(&Target::Dram, each);
        let arrays = [array()?, array()?, array()?];
        let settle = (each.0 * 3).min(place.llc_lines() * LINE as u64);
        // Trials begin at places of their own.
        let at = (place.seed % (each.0 / portion)) as u32 * PORTION;
        Ok(Self { arrays, at, settle })
    }
}

impl Task for Streamer {
    fn portion(&mut self, _: Ps, _: &Tally, ops: &mut Vec<Op>) {
        let [a, b, c] = self.arrays;
        for line in self.at..self.at + PORTION {
            ops.push(Op::Load { line: b.line(line), dependent: false });
            ops.push(Op::Load { line: c.line(line), dependent: false });
            ops.push(Op::Store(a.line(line)));
        }
        self.at = (self.at + PORTION) % a.lines();
        ops.push(Op::Units(PORTION * 3 * LINE as u32));
    }

    fn round(&self, _: bool) -> u64 {
        self.settle
    }
}
