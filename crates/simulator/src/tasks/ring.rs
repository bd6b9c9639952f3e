//! The ring buffers, ours and the slides': the workload's own code, over memory that is followed.

use crate::hardware::{Op, Ps};
use ringfence_experiment::task::{Ring, RingVariant};
use ringfence_machine::units::Bytes;
use ringfence_persist::{Flush, LINE};
use ringfence_workloads::ring::{self, Ringer};
use ringfence_workloads::{Latencies, Workload};

use super::error::SetupError;
use super::memory::Followed;
use super::place::Place;
use crate::actor::{Tally, Task};

// Batches after which a trial begins.
const STARTS: u64 = 4096;

/// A ring, and both its sides.
pub struct Rings {
    ringer: Ringer<Followed, Followed>,
    memory: Followed,
    round: u64,
}

impl Rings {
    pub fn new(task: &Ring, place: &mut Place) -> Result<Self, SetupError> {
        let Some(bytes) = ring::bytes(task) else {
            let message = format!("size = {} cannot be simulated", task.size);
            return Err(ringfence_workloads::SetupError::Other(message).into());
        };
        let mut how = place.how();
        // The slides' copies are bare, and the first ring has one instruction.
        how.asks = task.variant == RingVariant::Ringfence;
        if task.variant == RingVariant::Naive {
            how.flush = Flush::Clflush;
        }
        let region = place.region(&task.target, Bytes(bytes as u64))?;
        let memory = Followed::new(region, how);
        // A line and more past the caches, as the processor's own methods have it
        // (`ringfence_persist::Methods`).
        let mut ringer = Ringer::over(task, memory.clone(), LINE)?;
        // Trials begin at places of their own.
        ringer.work(place.seed % STARTS, &Nobody);
        memory.follow();
        let round = place.llc_lines().min(task.size.0 / LINE as u64) * LINE as u64 / task.slot();
        Ok(Self { ringer, memory, round })
    }
}

struct Nobody;

impl Latencies for Nobody {
    fn count(&self, _: u64) {}
}

impl Task for Rings {
    fn portion(&mut self, _: Ps, _: &Tally, ops: &mut Vec<Op>) {
        let work = self.ringer.work(1, &Nobody);
        assert_eq!(self.ringer.failure(), None, "a ring over memory that loses nothing");
        self.memory.take(ops);
        ops.push(Op::Units(work.units as u32));
    }

    fn round(&self, _: bool) -> u64 {
        self.round
    }
}
