//! A check of a measurement: the metric's programs stopped half of the time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ringfence_machine::root::FsRoot;

use super::Crew;
use crate::process;

// Turns begin short and grow with the time that has passed, so that runs of any length hold several
// and the last one, which may be cut, is a small part of the whole.
const FIRST_TURN: Duration = Duration::from_millis(2);
const LONGEST_TURN: Duration = Duration::from_millis(200);
const GROWTH: f64 = 1.2;
const STOP_LIMIT: Duration = Duration::from_secs(5);

/// Stops everything below some workers for as long as it let it run, in turns, until it is dropped;
/// then all run.
pub struct Halved {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Halved {
    fn begin(workers: Vec<i32>) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let seen = over.clone();
        let thread = std::thread::spawn(move || {
            let root = FsRoot::host();
            let mut turn = FIRST_TURN;
            while !seen.load(Ordering::Acquire) {
                let resumed = Instant::now();
                std::thread::sleep(turn);
                for worker in &workers {
                    process::stop_descendants(&root, *worker, STOP_LIMIT);
                }
                let ran = resumed.elapsed();
                if !seen.load(Ordering::Acquire) {
                    std::thread::sleep(ran);
                }
                workers.iter().for_each(|worker| process::resume_descendants(&root, *worker));
                turn = turn.mul_f64(GROWTH).min(LONGEST_TURN);
            }
        });
        Self { over, thread: Some(thread) }
    }
}

impl Drop for Halved {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            // It cannot panic, and where it did, all run anyway as soon as they are ended.
            let _ = thread.join();
        }
    }
}

impl Crew<'_> {
    /// Begins to stop the metric's programs half of the time, if requested.
    pub fn begin_halving(&self) -> Option<Halved> {
        let metric = self.plan.metric;
        let programs = self.workers.iter().filter(|worker| worker.role == metric && worker.program);
        self.halved.then(|| Halved::begin(programs.filter_map(|worker| worker.pid).collect()))
    }
}
