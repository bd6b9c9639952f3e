//! The checks of a measurement: the metric's tasks stopped half of the time, and the resources that
//! the others use.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ringfence_machine::root::FsRoot;

use super::HostEngine;
use crate::process;
use crate::usage::Used;

// Turns begin short and grow with the time that has passed, so that runs of any length hold several
// and the last one, which may be cut, is a small part of the whole.
const FIRST_TURN: Duration = Duration::from_millis(2);
const LONGEST_TURN: Duration = Duration::from_millis(200);
const GROWTH: f64 = 1.2;
const STOP_LIMIT: Duration = Duration::from_secs(5);

/// Stops everything below some workers for as long as it let it run, in turns, until it is dropped;
/// then all run.
pub(super) struct Halved {
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

impl HostEngine<'_> {
    /// Begins to stop the metric's programs half of the time, if requested.
    pub(super) fn begin_halving(&self) -> Option<Halved> {
        let metric = self.plan.metric;
        let programs = self.workers.iter().filter(|worker| worker.role == metric && worker.program);
        self.halved.then(|| Halved::begin(programs.filter_map(|worker| worker.pid).collect()))
    }

    /// What the processes of each worker have used until now.
    pub(super) fn uses(&self, workers: &[usize]) -> Vec<Used> {
        let root = FsRoot::host();
        let of = |&worker: &usize| {
            let worker = &self.workers[worker];
            // A timed run is not an aggressor.
            let Some(pid) = worker.pid.filter(|_| worker.role != self.plan.metric) else {
                return Used::default();
            };
            let mut used = process::used(&root, pid, worker.program);
            used.restarts = self.shared.slot(worker.slot).restarts();
            used
        };
        workers.iter().map(of).collect()
    }

    /// Adds what was used since `before` to what is known of the workers' roles.
    pub(super) fn add_uses(&mut self, workers: &[usize], before: &[Used], length: Duration) {
        let after = self.uses(workers);
        for ((&worker, before), after) in workers.iter().zip(before).zip(after) {
            let worker = &self.workers[worker];
            let windows_ns = if worker.instance == 0 { length.as_nanos() as u64 } else { 0 };
            let now = Used { windows_ns, ..after.since(*before) };
            self.used[worker.role] = self.used[worker.role].and(now);
        }
    }
}
