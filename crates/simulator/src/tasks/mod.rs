//! The workloads as operations on lines. Each does what the workload of its name does, in the same
//! order.

mod alu;
mod chase;
mod error;
mod mcf;
mod memory;
mod place;
mod play;
mod program;
mod read;
mod record;
mod ring;
mod stream;
mod write;

use ringfence_experiment::task;

use crate::actor::Task;

pub use chase::cycle;
pub use error::SetupError;
pub use place::{Place, Regions};

/// A task as operations; `None` for one that does nothing.
///
/// # Errors
/// Where its memory does not fit into the described machine, or the workload refuses what is asked
/// for.
pub fn build(task: &task::Task, place: &mut Place) -> Result<Option<Box<dyn Task>>, SetupError> {
    Ok(match task {
        task::Task::Write(task) => Some(Box::new(write::Writer::new(task, place)?)),
        task::Task::Chase(task) => Some(Box::new(chase::Chaser::new(task, place)?)),
        task::Task::Stream(task) => Some(Box::new(stream::Streamer::new(task, place)?)),
        task::Task::Read(task) => Some(Box::new(read::Reader::new(task, place)?)),
        task::Task::Alu(task) => Some(Box::new(alu::Multiplier::new(task, place))),
        task::Task::Mcf(task) => Some(Box::new(mcf::Simplex::new(task, place)?)),
        task::Task::Ring(task) => Some(Box::new(ring::Rings::new(task, place)?)),
        task::Task::Record(task) => Some(Box::new(record::Records::new(task, place)?)),
        task::Task::Trace(task) => {
            let program = place.program(task)?;
            // It may have fewer threads than CPUs.
            match place.share.0 {
                cpu if cpu < program.cpus() => {
                    Some(Box::new(play::Player::new(task, program, cpu, place)?))
                }
                _ => None,
            }
        }
        // It does nothing, or plans do not have it: see `Parameters::not_simulated`.
        _ => None,
    })
}
