//! Commits: records appended to a log in a file, each batch durable before the next.
//!
//! A commit's time is that of its write and its sync, from before the first call to after the last. What brings the log back
//! to its layout, once it is full, is not work.

mod log;
mod way;

use std::cell::RefCell;
use std::io;
use std::rc::Rc;

use ringfence_experiment::task::Commit;
use ringfence_machine::clock::Clock;
use ringfence_machine::units::Bytes;

use crate::files::Buffer;
use crate::workload::{Latencies, SetupError, Work, Workload};
use log::{Log, Place};
use way::Way;

/// Logs already made, for tasks that differ in nothing that concerns them.
#[derive(Default)]
pub struct Logs(Vec<(Place, Rc<RefCell<Log>>)>);

impl Logs {
    fn of(&mut self, task: &Commit) -> Result<Rc<RefCell<Log>>, SetupError> {
        let place = Place::of(task);
        if let Some((_, log)) = self.0.iter().find(|(known, _)| *known == place) {
            return Ok(Rc::clone(log));
        }
        let log = Rc::new(RefCell::new(Log::create(place.clone())?));
        self.0.push((place, Rc::clone(&log)));
        Ok(log)
    }
}

/// Writes batches of records to a log.
pub struct Committer {
    what: String,
    log: Rc<RefCell<Log>>,
    way: Way,
    clock: &'static Clock,
    batch: Buffer,
    number: u64,
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
        let way =
            Way::open(task, &log.borrow()).map_err(|error| SetupError::Other(format!("{what}: {error}")))?;
        let batch = Buffer::new(task.bytes() as usize, seed);
        Ok(Self { what, log, way, clock: Clock::host(), batch, number: 0, failure: None })
    }

    // Ticks of the commit, and of what came before it.
    fn commit(&mut self) -> io::Result<(u64, u64)> {
        let begun = self.clock.now();
        let batch = self.batch.get();
        let at = self.log.borrow_mut().room(batch.len() as u64)?;
        self.number += 1;
        let stamped = batch.len().min(8);
        batch[..stamped].copy_from_slice(&self.number.to_le_bytes()[..stamped]);
        let start = self.clock.now();
        self.way.commit(batch, at)?;
        Ok((self.clock.now() - start, start - begun))
    }
}

impl Workload for Committer {
    fn work(&mut self, amount: u64, latencies: &dyn Latencies) -> Work {
        let mut work = Work::default();
        for _ in 0..amount {
            if self.failure.is_some() {
                break;
            }
            match self.commit() {
                Ok((ticks, untimed)) => {
                    latencies.count(ticks);
                    work.units += 1;
                    work.untimed += untimed;
                }
                Err(error) => self.failure = Some(format!("{}: {error}", self.what)),
            }
        }
        work
    }

    // What was not to be durable is written back at some time.
    fn paused(&mut self) {
        if let Err(error) = self.log.borrow().sync() {
            self.failure = Some(format!("{}: {error}", self.what));
        }
    }

    fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }
}

/// Tries a task's way to commit, once, and leaves nothing.
///
/// # Errors
/// Why it cannot be had here, such that it follows "because".
pub fn try_out(task: &Commit) -> Result<(), String> {
    let small = Commit { size: Bytes(2 * task.bytes()), ..task.clone() };
    let mut committer = Committer::new(&small, 1, &mut Logs::default()).map_err(|error| error.to_string())?;
    committer.commit().map(drop).map_err(|error| format!("{}: {error}", committer.what))
}

#[cfg(test)]
mod tests;
