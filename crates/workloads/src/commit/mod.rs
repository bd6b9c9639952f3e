//! Commits: records appended to a log in a file, each batch durable before the next.
//!
//! A commit's time is that of its write and its sync, from before the first call to after the last.
//! What brings the log back to its layout, once it is full, is not work.

mod crew;
mod log;
mod method;
mod writer;

use std::io;
use std::sync::Arc;

use ringfence_experiment::Reason;
use ringfence_experiment::task::{Commit, Parameters};
use ringfence_machine::units::Bytes;

use crate::workload::{Latencies, SetupError, Work, Workload};
use crew::Crew;
use log::{Log, Place};
use method::Way;
use writer::Writer;

/// Logs already made, for tasks that differ in nothing that concerns them.
#[derive(Default)]
pub struct Logs(Vec<(Place, Arc<Log>)>);

impl Logs {
    fn of(&mut self, task: &Commit) -> Result<Arc<Log>, SetupError> {
        let place = Place::of(task);
        if let Some((_, log)) = self.0.iter().find(|(known, _)| *known == place) {
            return Ok(Arc::clone(log));
        }
        let log = Arc::new(Log::create(place.clone())?);
        self.0.push((place, Arc::clone(&log)));
        Ok(log)
    }
}

/// Writes batches of records to a log.
pub struct Committer {
    what: String,
    log: Arc<Log>,
    crew: Crew,
    failure: Option<String>,
}

impl Committer {
    /// Makes the log, unless there is one, and opens it.
    ///
    /// # Errors
    /// Where there is no such way to commit here.
    pub fn new(task: &Commit, seed: u64, logs: &mut Logs) -> Result<Self, SetupError> {
        task.check().map_err(SetupError::Other)?;
        if let Some(reason) = task.impossible() {
            return Err(SetupError::Other(format!("no such commits, because {reason}")));
        }
        let what = format!(
            "commits of {} by sync={} io={} in {}",
            Bytes(task.bytes()),
            task.sync,
            task.io,
            task.dir.display()
        );
        let log = logs.of(task)?;
        let writer = |index: u32| {
            Ok(Writer::new(
                Arc::clone(&log),
                Way::open(task, &log)?,
                task.bytes(),
                seed.wrapping_add(index.into()),
            ))
        };
        let writers: io::Result<Vec<Writer>> = (0..task.writers).map(writer).collect();
        let writers = writers.map_err(|error| SetupError::Other(format!("{what}: {error}")))?;
        Ok(Self { what, log, crew: Crew::new(writers), failure: None })
    }

    fn failed(&mut self, error: &io::Error) {
        self.failure.get_or_insert_with(|| format!("{}: {error}", self.what));
    }
}

impl Workload for Committer {
    fn work(&mut self, amount: u64, latencies: &dyn Latencies) -> Work {
        if self.failure.is_some() {
            return Work::default();
        }
        let (work, error) = self.crew.work(amount, latencies);
        if let Some(error) = error {
            self.failed(&error);
        }
        work
    }

    // What was not to be durable is written back at some time.
    fn paused(&mut self) {
        let stood = self.crew.stand().and_then(|()| self.log.sync());
        if let Err(error) = stood {
            self.failed(&error);
        }
    }

    fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }
}

/// Tries a task's way to commit, once, and leaves nothing.
///
/// # Errors
/// Why it cannot be had here.
pub fn try_out(task: &Commit) -> Result<(), Reason> {
    let small = Commit { size: Bytes(2 * task.bytes()), writers: 1, ..task.clone() };
    let mut committer =
        Committer::new(&small, 1, &mut Logs::default()).map_err(|error| error.to_string())?;
    committer
        .crew
        .first()
        .commit()
        .map(drop)
        .map_err(|error| format!("{}: {error}", committer.what).into())
}

#[cfg(test)]
mod tests;
