//! What runs on one simulated CPU: the tasks of the role that holds it, one at a time, as ordered.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::hardware::{Op, Program, Ps};
use ringfence_experiment::histogram::{BUCKETS, bucket_of};

/// A task that does its operations a portion at a time.
pub trait Task: Send {
    /// Adds the next portion's operations: at least one. `now` is when the front end asks for them.
    /// If the last one before was a fence that keeps loads back, all that it waited for is done.
    fn portion(&mut self, now: Ps, tally: &Tally, ops: &mut Vec<Op>);

    /// Units in which caches could settle: a round over what it touches, or as much as they hold. 0
    /// where it needs none.
    fn round(&self, alone: bool) -> u64;

    /// Called before the first portion after a pause.
    fn resumed(&mut self) {}

    /// Whether what it does depends on where in a long computation it stands, so that it is
    /// compared over the same stretch: it goes back to where the trial began at the beginning of
    /// each window, by [`Task::resumed`].
    fn goes_back(&self) -> bool {
        false
    }

    /// The shortest window that is sure to hold some of its work, where it does not work all the
    /// time.
    fn least_window(&self) -> Duration {
        Duration::ZERO
    }
}

/// What a CPU's tasks count besides units.
pub struct Tally {
    untimed: AtomicU64,
    latencies: Mutex<Box<[u64]>>,
}

impl Default for Tally {
    fn default() -> Self {
        Self { untimed: AtomicU64::new(0), latencies: Mutex::new(vec![0; BUCKETS].into()) }
    }
}

impl Tally {
    /// Adds time that is not part of the work.
    pub fn untimed(&self, span: Ps) {
        self.untimed.fetch_add(span.0, Ordering::Relaxed);
    }

    /// Counts a latency.
    pub fn latency(&self, span: Ps) {
        let bucket = bucket_of(span.0.div_ceil(1000));
        if let Ok(mut latencies) = self.latencies.lock() {
            latencies[bucket] += 1;
        }
    }

    /// Time that was not part of the work, in picoseconds, since the start.
    pub fn untimed_ps(&self) -> u64 {
        self.untimed.load(Ordering::Relaxed)
    }

    /// All latencies since the start.
    pub fn latencies(&self) -> Box<[u64]> {
        self.latencies
            .lock()
            .map_or_else(|_| vec![0; BUCKETS].into(), |latencies| latencies.clone())
    }
}

/// What the engine and a CPU's program share.
#[derive(Default)]
pub struct Shared {
    /// Which task runs next.
    pub order: AtomicUsize,
    /// How often a task resumed after a pause.
    pub resumed: AtomicUsize,
    /// What was counted.
    pub tally: Tally,
}

/// The program of a CPU.
pub struct Actor {
    shared: Arc<Shared>,
    tasks: Vec<Box<dyn Task>>,
    ops: Vec<Op>,
    next: usize,
    // Which task they are of.
    of: usize,
    // Of `Shared::resumed`.
    resumed: usize,
}

impl Actor {
    pub fn new(shared: Arc<Shared>, tasks: Vec<Box<dyn Task>>) -> Self {
        Self { shared, tasks, ops: Vec::new(), next: 0, of: 0, resumed: 0 }
    }
}

impl Program for Actor {
    #[inline]
    fn next(&mut self, now: Ps) -> Op {
        let order = self.shared.order.load(Ordering::Relaxed);
        let resumed = self.shared.resumed.load(Ordering::Relaxed);
        // What another task has left undone is not this one's, nor what one that went back had
        // begun.
        let undone =
            order == self.of && (resumed == self.resumed || !self.tasks[order].goes_back());
        if let Some(op) = self.ops.get(self.next).filter(|_| undone) {
            self.next += 1;
            return *op;
        }
        self.ops.clear();
        self.of = order;
        let task = &mut self.tasks[order];
        if resumed != self.resumed {
            self.resumed = resumed;
            task.resumed();
        }
        task.portion(now, &self.shared.tally, &mut self.ops);
        self.next = 1;
        self.ops[0]
    }
}
