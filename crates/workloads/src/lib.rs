//! What tasks do: each workload works a little at a time and counts its units.

mod alu;
mod chase;
pub mod churn;
pub mod commit;
pub mod dirty;
mod files;
pub mod lines;
pub mod mcf;
pub mod pricer;
pub mod probe;
pub mod read;
pub mod record;
pub mod ring;
pub mod room;
pub mod scale;
pub mod scan;
mod stream;
mod workload;
pub mod write;

pub use workload::{Latencies, SetupError, Work, Workload};

use ringfence_experiment::Reason;
use ringfence_experiment::task::Task;

/// Memory already mapped and files already made, for tasks that differ in nothing that concerns
/// them.
#[derive(Default)]
pub struct Regions {
    written: write::Regions,
    read: read::Regions,
    logs: commit::Logs,
    files: files::Filled,
}

/// Sets up the built-in workload of a task; `None` for tasks that are not one of ours (programs,
/// recorded or not) or do nothing. Memory is touched before this returns. Writers to equal targets
/// share one mapping, and so do readers of equal memory, so that its layout is not a difference
/// between them.
///
/// # Errors
/// Where the memory cannot be had.
pub fn build(
    task: &Task,
    seed: u64,
    regions: &mut Regions,
) -> Result<Option<Box<dyn Workload>>, SetupError> {
    Ok(match task {
        Task::Write(task) => Some(Box::new(write::Writer::new(task, seed, &mut regions.written)?)),
        Task::Ring(task) => Some(Box::new(ring::Ringer::new(task, &mut regions.written)?)),
        Task::Record(task) => {
            Some(Box::new(record::Recorder::new(task, seed, &mut regions.written)?))
        }
        Task::Commit(task) => {
            Some(Box::new(commit::Committer::new(task, seed, &mut regions.logs)?))
        }
        Task::Dirty(task) => Some(Box::new(dirty::Dirtier::new(task, seed, &mut regions.files)?)),
        Task::Churn(task) => Some(Box::new(churn::Churner::new(task, seed)?)),
        Task::Scan(task) => Some(Box::new(scan::Scanner::new(task, &mut regions.files)?)),
        Task::Chase(task) => Some(Box::new(chase::Chaser::new(task, seed)?)),
        Task::Read(task) => Some(Box::new(read::Reader::new(task, seed, &mut regions.read)?)),
        Task::Stream(task) => Some(Box::new(stream::Streamer::new(task))),
        Task::Alu(task) => Some(Box::new(alu::Multiplier::new(task))),
        Task::Mcf(task) => Some(Box::new(pricer::Pricer::new(task)?)),
        Task::Probe(task) => Some(Box::new(probe::Prober::new(task)?)),
        Task::Trace(_) | Task::Command(_) | Task::Attached(_) | Task::Idle(_) => None,
    })
}

/// Tries out a task that uses a disk: bytes a second, where it writes all the time. Other tasks
/// need no trial.
///
/// # Errors
/// Why it cannot be run.
pub fn try_out(task: &Task) -> Result<Option<f64>, Reason> {
    match task {
        Task::Commit(task) => commit::try_out(task).map(|()| None),
        Task::Dirty(task) => dirty::try_out(task).map(Some),
        Task::Churn(task) => churn::try_out(task).map(|()| None),
        Task::Scan(task) => scan::try_out(task).map(|()| None),
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringfence_experiment::task::Tasks;
    use std::cell::Cell;

    struct Count(Cell<u64>);
    impl Latencies for Count {
        fn count(&self, _: u64) {
            self.0.set(self.0.get() + 1);
        }
    }

    #[test]
    fn every_workload_counts_what_it_does_and_settles() {
        let tables = [
            ("workload = 'chase'\nfootprint = '64KiB'", 1024),
            ("workload = 'chase'\nfootprint = '64KiB'\nhistogram = true", 1024),
            ("workload = 'stream'\nsize = '1MiB'", 0),
            ("workload = 'alu'", 0),
            ("workload = 'alu'\nhandicap = '2%'", 0),
            ("workload = 'mcf'\nfootprint = '256KiB'", 1),
            ("workload = 'write'\nsize = '1MiB'", 0),
            ("workload = 'ring'\nsize = '1MiB'", 0),
            ("workload = 'record'\nsize = '1MiB'", 0),
        ];
        let mut regions = Regions::default();
        for (text, settle) in tables {
            let task = &Tasks::parse(&text.parse().unwrap()).unwrap().each().unwrap()[0].0;
            let mut workload = build(task, 7, &mut regions).unwrap().expect(text);
            let latencies = Count(Cell::new(0));
            let units: Vec<u64> = [1, 1, 2, 50]
                .iter()
                .map(|amount| workload.work(*amount, &latencies).units)
                .collect();
            assert!(units.iter().all(|units| *units > 0), "{text}: {units:?}");
            assert!(units[3] > units[0], "{text}: {units:?}");
            assert!(workload.settle_units() >= settle, "{text}");
            let alone = workload.alone_ns();
            assert_eq!(
                alone.is_some_and(|ns| ns > 0.0),
                text.contains("chase") && !text.contains("histogram"),
                "{text}"
            );
            assert_eq!(latencies.0.get() > 0, text.contains("histogram"), "{text}");
        }
    }
}
