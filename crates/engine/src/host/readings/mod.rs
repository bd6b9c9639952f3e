//! Readings: what workers did and used, and what disks did, by the clock.

mod counters;
mod disks;
mod measured;
mod stretches;

use std::time::{Duration, Instant};

use ringfence_experiment::Error;
use ringfence_experiment::plan::Plan;
use ringfence_machine::clock::Clock;
use ringfence_machine::root::FsRoot;

use super::crew::Crew;
use crate::process;
use crate::usage::Used;
use crate::write_budget::Written;
pub use counters::Counts;
use disks::Disks;
pub use disks::Look;
pub use measured::Edge;
pub use stretches::Series;

/// What is read at the ends of windows, and added up over them.
pub struct Readings {
    metric: usize,
    clock: &'static Clock,
    origin: u64,
    disks: Disks,
    // Whether a task writes to files outside of the folders whose disks are known.
    writes_elsewhere: bool,
    written: Written,
    // By role.
    used: Vec<Used>,
}

/// What the processes of some workers had used at a moment.
pub struct Uses {
    used: Vec<Used>,
    /// The moment.
    pub at: Instant,
}

impl Readings {
    /// Readings of a plan's workers. Times count from now on.
    pub fn new(plan: &Plan, crew: &Crew) -> Self {
        let mut tasks = plan.variants.iter().flatten().map(|variant| &variant.task);
        let clock = Clock::host();
        Self {
            metric: plan.metric,
            clock,
            origin: clock.now(),
            disks: Disks::below(&FsRoot::host(), crew.tasks().filter_map(|task| task.works_in())),
            writes_elsewhere: tasks.any(|task| task.writes_files() && !task.uses_a_disk()),
            written: Written::default(),
            used: vec![Used::default(); plan.experiment.roles.len()],
        }
    }

    /// The clock's present tick.
    pub fn now(&self) -> u64 {
        self.clock.now()
    }

    /// A tick of the clock in ns since the engine's start.
    pub fn start_ns(&self, tick: u64) -> u64 {
        self.clock.ns(tick.saturating_sub(self.origin)) as u64
    }

    /// What the disk and the page cache are like now; `None` where no task uses a disk. It reads
    /// two files of the kernel's.
    pub fn look(&self) -> Option<Look> {
        self.disks.look(&FsRoot::host(), self.clock.now())
    }

    /// What each disk has written since the engine's start, as a text; `None` where none is known.
    pub fn wrote(&self) -> Option<String> {
        self.disks.wrote(&FsRoot::host())
    }

    /// What the processes of each worker have used until now.
    pub fn uses(&self, crew: &Crew, workers: &[usize]) -> Uses {
        let root = FsRoot::host();
        let of = |&worker: &usize| {
            let of = &crew.workers[worker];
            // A timed run is not an aggressor.
            let Some(pid) = of.pid.filter(|_| of.role != self.metric) else {
                return Used::default();
            };
            let mut used = process::used(&root, pid, of.program);
            used.restarts = crew.slot(worker).restarts();
            used
        };
        Uses { used: workers.iter().map(of).collect(), at: Instant::now() }
    }

    /// Adds what was used since `before` to what is known of the workers' roles.
    pub fn add_uses(&mut self, crew: &Crew, workers: &[usize], before: &Uses) {
        let length = before.at.elapsed();
        let after = self.uses(crew, workers).used;
        for ((&worker, before), after) in workers.iter().zip(&before.used).zip(after) {
            let worker = &crew.workers[worker];
            let windows_ns = if worker.instance == 0 { length.as_nanos() as u64 } else { 0 };
            self.add_used(worker.role, Used { windows_ns, ..after.since(*before) });
        }
    }

    /// Adds what a role has used.
    pub fn add_used(&mut self, role: usize, used: Used) {
        self.used[role] = self.used[role].and(used);
    }

    /// What a role's processes have used in all windows so far.
    pub fn used(&self, role: usize) -> Used {
        self.used[role]
    }

    /// Reads how much was written by now.
    pub fn look_at_writes(&mut self, crew: &Crew) {
        self.written.look(&FsRoot::host(), crew.writers());
    }

    /// Fails if built-in tasks have written too much. This is read again once in a while.
    ///
    /// # Errors
    /// That a limit was reached, then.
    pub fn keep_the_write_limit(&mut self, crew: &Crew, every: Duration) -> Result<(), Error> {
        if self.written.was_looked_at_within(every) {
            return Ok(());
        }
        self.look_at_writes(crew);
        if self.written.is_nothing() {
            Ok(())
        } else {
            self.written.may_go_on(self.written_by_disks())
        }
    }

    /// Counts what was written for the run, whose engine ends.
    pub fn end(&mut self, crew: &Crew) {
        self.look_at_writes(crew);
        self.written.end(self.written_by_disks());
    }

    fn written_by_disks(&self) -> Option<u64> {
        if self.writes_elsewhere { None } else { self.disks.written_bytes(&FsRoot::host()) }
    }
}
