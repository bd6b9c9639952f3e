//! Records, by each of the methods that make them failure-atomic: the workload's own code, over
//! memory that is followed.

use crate::hardware::{Op, Ps};
use ringfence_experiment::task::{self, RecordMethod};
use ringfence_persist::LINE;
use ringfence_workloads::record::{Recorder, method};
use ringfence_workloads::{Latencies, Workload};

use super::error::SetupError;
use super::memory::Followed;
use super::place::Place;
use crate::actor::{Tally, Task};

// Records after which a trial begins.
const STARTS: u64 = 4096;

/// Records, one behind the other.
pub struct Records {
    recorder: Recorder<Followed>,
    memory: Followed,
    round: u64,
}

impl Records {
    pub fn new(task: &task::Record, place: &mut Place) -> Result<Self, SetupError> {
        let region = place.region(&task.target, task.size)?;
        let memory = Followed::new(region, place.how());
        let mut recorder = Recorder::over(task, place.seed, memory.clone())?;
        // Trials begin at places of their own.
        recorder.work(place.seed % STARTS, &Nobody);
        memory.follow();
        let room = method::room(task.method, task.payload.0 as usize) as u64;
        // Slots are written in turn, half of them in a round.
        let of_round = if task.method == RecordMethod::Slots { room / 2 } else { room };
        let round = place.llc_lines().min(task.size.0 / LINE as u64) * LINE as u64 / of_round;
        Ok(Self { recorder, memory, round })
    }
}

struct Nobody;

impl Latencies for Nobody {
    fn count(&self, _: u64) {}
}

impl Task for Records {
    fn portion(&mut self, _: Ps, _: &Tally, ops: &mut Vec<Op>) {
        let work = self.recorder.work(1, &Nobody);
        self.memory.take(ops);
        ops.push(Op::Units(work.units as u32));
    }

    fn round(&self, _: bool) -> u64 {
        self.round
    }
}
