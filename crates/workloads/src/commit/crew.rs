//! The writers of one log: a single writer in the caller's thread, or several in threads of their
//! own.
//!
//! Several writers commit continuously while the task runs, each as soon as its last commit is
//! done; the caller takes what was done since its last call. Their threads begin with the first
//! work after a pause, on the CPUs of the caller, and end with the next pause, so that no thread
//! commits between windows.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};

use super::writer::{Took, Writer};
use crate::workload::{Latencies, Work};

pub struct Crew {
    standing: Vec<Writer>,
    at_work: Option<AtWork>,
}

struct AtWork {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<Writer>>,
}

#[derive(Default)]
struct Shared {
    over: AtomicBool,
    done: Mutex<Done>,
    more: Condvar,
}

#[derive(Default)]
struct Done {
    commits: Vec<Took>,
    error: Option<io::Error>,
}

impl Shared {
    fn done(&self) -> MutexGuard<'_, Done> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Crew {
    pub fn new(writers: Vec<Writer>) -> Self {
        Self { standing: writers, at_work: None }
    }

    /// The first of them, while all are paused.
    pub fn first(&mut self) -> &mut Writer {
        &mut self.standing[0]
    }

    /// All of them, while they are paused.
    #[cfg(test)]
    pub fn each(&mut self) -> impl Iterator<Item = &mut Writer> {
        self.standing.iter_mut()
    }

    /// Commits by them all, `amount` at least, and what went wrong.
    pub fn work(&mut self, amount: u64, latencies: &dyn Latencies) -> (Work, Option<io::Error>) {
        let mut work = Work::default();
        if let ([writer], None) = (&mut self.standing[..], &self.at_work) {
            while work.units < amount {
                match writer.commit() {
                    Ok(took) => count(&mut work, took, latencies),
                    Err(error) => return (work, Some(error)),
                }
            }
            return (work, None);
        }
        let at_work = match self.begin() {
            Ok(at_work) => at_work,
            Err(error) => return (work, Some(error)),
        };
        let enough = |done: &mut Done| (done.commits.len() as u64) < amount && done.error.is_none();
        let shared = &at_work.shared;
        let waited = shared.more.wait_while(shared.done(), enough);
        let done = std::mem::take(&mut *waited.unwrap_or_else(PoisonError::into_inner));
        let writers = at_work.threads.len() as u64;
        for took in done.commits {
            count(&mut work, took, latencies);
        }
        // What one of them waits, the others do not, or wait for at the same time.
        work.untimed /= writers;
        (work, done.error)
    }

    fn begin(&mut self) -> io::Result<&AtWork> {
        let at_work = self
            .at_work
            .get_or_insert_with(|| AtWork { shared: Arc::default(), threads: Vec::new() });
        while let Some(writer) = self.standing.pop() {
            let shared = Arc::clone(&at_work.shared);
            at_work.threads.push(Builder::new().spawn(move || write(writer, &shared))?);
        }
        Ok(at_work)
    }

    /// Ends what they do, and what they have begun.
    ///
    /// # Errors
    /// What went wrong since the last work. What was done since then is not counted.
    pub fn stand(&mut self) -> io::Result<()> {
        let Some(AtWork { shared, threads }) = self.at_work.take() else { return Ok(()) };
        shared.over.store(true, Relaxed);
        for thread in threads {
            self.standing.push(
                thread.join().map_err(|_| io::Error::other("a writer's thread has panicked"))?,
            );
        }
        shared.done().error.take().map_or(Ok(()), Err)
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        let _ = self.stand();
    }
}

fn count(work: &mut Work, took: Took, latencies: &dyn Latencies) {
    latencies.count(took.commit);
    work.units += 1;
    work.untimed += took.untimed;
}

fn write(mut writer: Writer, shared: &Shared) -> Writer {
    while !shared.over.load(Relaxed) {
        let result = writer.commit();
        let mut done = shared.done();
        let failed = result.is_err();
        match result {
            Ok(took) => done.commits.push(took),
            Err(error) => done.error = done.error.take().or(Some(error)),
        }
        drop(done);
        shared.more.notify_one();
        if failed {
            break;
        }
    }
    writer
}
