//! The worker processes of a plan. They are started, told to run or to pause, and watched.
//!
//! What they report is in `reports.rs`, and when they have settled in `settle.rs`.

mod halved;
mod reports;
mod settle;
#[cfg(test)]
pub mod tests;
mod workers;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ringfence_experiment::Error;
use ringfence_experiment::plan::{Active, Plan};
use ringfence_experiment::start::Start;
use ringfence_experiment::task::Task;
use ringfence_experiment::task::Variant;
use ringfence_machine::counters::Counters;
use ringfence_machine::topology::Topology;

use crate::guardian::{Event, Guardian};
use crate::shm::{Shared, Slot, order, state};
use crate::worker::{Alone, Assigned, Failure, Spec};
pub use halved::Halved;
pub use reports::Point;
pub use workers::Worker;

// Mapping a large target takes long, and so does waiting for a slow disk, or for a CPU under a
// quota on a busy machine.
const ANSWER_LIMIT: Duration = Duration::from_secs(120);
// How often a worker that is waited for is looked after.
const LOOK: Duration = Duration::from_millis(100);

/// The workers of a plan, the memory shared with them, and the guardian that starts and ends them.
pub struct Crew<'a> {
    plan: &'a Plan,
    stop: &'a AtomicBool,
    shared: Shared,
    guardian: Guardian,
    /// All of them; elsewhere a worker is its index here.
    pub workers: Vec<Worker>,
    has_begun: bool,
    /// What victims measured of themselves at their start.
    pub starts: Vec<Start>,
    /// Whether the metric's programs are stopped half of the time.
    pub halved: bool,
}

impl<'a> Crew<'a> {
    /// Starts the guardian; no worker runs yet.
    ///
    /// # Errors
    /// Where there is no shared memory, or the guardian cannot be started.
    pub fn new(plan: &'a Plan, topology: &Topology, stop: &'a AtomicBool) -> Result<Self, Error> {
        let workers = workers::of_plan(plan);
        let failed = |what: &str, error: std::io::Error| Error::failed(format!("{what}: {error}"));
        let shared = Shared::create(workers.len().max(1))
            .map_err(|e| failed("creating shared memory failed", e))?;
        let guardian = Guardian::start(shared.fd())
            .map_err(|e| failed("starting the guardian process failed", e))?;
        workers::step_aside(topology, &workers);
        Ok(Self {
            plan,
            stop,
            shared,
            guardian,
            workers,
            has_begun: false,
            starts: Vec::new(),
            halved: false,
        })
    }

    /// The guardian's process id.
    pub fn guardian(&self) -> i32 {
        self.guardian.pid()
    }

    /// Whether a trial has begun.
    pub fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// The tasks that workers hold.
    pub fn tasks(&self) -> impl Iterator<Item = &'a Task> {
        self.workers.iter().flat_map(|worker| self.tasks_of(worker))
    }

    fn tasks_of(&self, worker: &Worker) -> impl Iterator<Item = &'a Task> + use<'a> {
        let variants = &self.plan.variants[worker.role];
        worker.variants.clone().into_iter().map(|variant| &variants[variant].task)
    }

    /// Processes of built-in tasks that may write to files. What programs write is theirs.
    pub fn writers(&self) -> impl Iterator<Item = i32> {
        let may_write = |worker: &&Worker| self.tasks_of(worker).any(|task| task.writes_files());
        self.workers.iter().filter(may_write).filter_map(|worker| worker.pid)
    }

    /// The workers that have been told to run.
    pub fn running(&self) -> Vec<usize> {
        (0..self.workers.len())
            .filter(|&worker| self.workers[worker].ordered != order::PAUSE)
            .collect()
    }

    /// The first of some workers that asks a service.
    pub fn probe(&self, workers: &[usize]) -> Option<usize> {
        workers.iter().copied().find(|&worker| self.workers[worker].probe)
    }

    /// Fails if the run is to stop.
    ///
    /// # Errors
    /// That an end was requested, then.
    pub fn may_go_on(&self) -> Result<(), Error> {
        if self.stop.load(Ordering::Relaxed) { Err(Error::interrupted()) } else { Ok(()) }
    }

    /// A worker's shared memory.
    pub fn slot(&self, worker: usize) -> &Slot {
        self.shared.slot(self.workers[worker].slot)
    }

    fn name(&self, worker: usize) -> String {
        let worker = &self.workers[worker];
        let role = &self.plan.experiment.roles[worker.role].name;
        format!("{role} {} on CPU {}", worker.instance, worker.home)
    }

    // What went wrong with a worker that did not do as ordered.
    fn explain(&mut self, worker: usize, otherwise: &str) -> Error {
        let name = self.name(worker);
        if let Ok(failure) = serde_json::from_str::<Failure>(&self.slot(worker).message()) {
            if !failure.usage {
                return Error::failed(format!("{name}: {}", failure.text));
            }
            // The CPU does not matter for what cannot be done, nor does the role where there is
            // one.
            return Error::usage(match self.plan.experiment.roles.as_slice() {
                [_] => failure.text,
                roles => format!("{}: {}", roles[self.workers[worker].role].name, failure.text),
            });
        }
        match self.ended(worker, Duration::from_millis(50)) {
            Err(error) => error,
            Ok(Some(how)) => Error::failed(format!("{name} ended: {how}")),
            Ok(None) => Error::failed(format!("{name} {otherwise}")),
        }
    }

    // Takes in what the guardian reports, waiting up to `limit` for the first of it.
    fn listen(&mut self, limit: Duration) -> Result<(), Error> {
        let mut limit = limit;
        while let Some(event) = self.guardian.event(limit).map_err(Error::failed_by)? {
            limit = Duration::ZERO;
            let (Event::Started { slot, .. } | Event::Ended { slot, .. }) = event;
            let Some(worker) = self.workers.iter_mut().find(|worker| worker.slot == slot) else {
                continue;
            };
            match event {
                Event::Started { pid, .. } => worker.pid = Some(pid),
                Event::Ended { how, .. } => (worker.pid, worker.ended) = (None, Some(how)),
            }
        }
        Ok(())
    }

    // How a worker ended, if it does within the limit.
    fn ended(&mut self, worker: usize, limit: Duration) -> Result<Option<String>, Error> {
        let until = Instant::now() + limit;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            // Of several that end at once, this one may have been reported with another.
            if self.workers[worker].ended.is_none() {
                self.listen(left)?;
            }
            if self.workers[worker].ended.is_some() || left.is_zero() {
                return Ok(self.workers[worker].ended.clone());
            }
        }
    }

    /// Fails where one of these has ended: what it reported last says nothing of the present.
    pub fn all_live(&mut self, workers: &[usize]) -> Result<(), Error> {
        self.listen(Duration::ZERO)?;
        match workers.iter().find(|worker| self.workers[**worker].ended.is_some()) {
            Some(&worker) => Err(self.explain(worker, "has ended")),
            None => Ok(()),
        }
    }

    /// Fails where the task of one of these has failed.
    pub fn none_failed(&mut self, workers: &[usize]) -> Result<(), Error> {
        match workers.iter().find(|worker| self.slot(**worker).state() == state::FAILED) {
            Some(&worker) => Err(self.explain(worker, "has failed")),
            None => Ok(()),
        }
    }

    // Waits, looking now and then whether the worker still lives. If the run is to stop, what may
    // take long is not finished: preparing a task, or syncing gigabytes in an episode.
    fn wait(
        &mut self,
        worker: usize,
        limit: Duration,
        otherwise: &str,
        done: impl Fn(&Slot) -> bool,
    ) -> Result<(), Error> {
        let begun = Instant::now();
        let is_starting = self.slot(worker).state() == state::STARTING;
        let long = is_starting || self.plan.experiment.measure.episode.is_some();
        while !done(self.slot(worker)) {
            if long && self.stop.load(Ordering::Relaxed) {
                return Err(Error::interrupted());
            }
            let failed = self.slot(worker).state() == state::FAILED;
            if failed || self.ended(worker, Duration::ZERO)?.is_some() || begun.elapsed() > limit {
                return Err(self.explain(worker, otherwise));
            }
        }
        Ok(())
    }

    /// Restarts the metric's workers, and starts all others that do not run yet; all are paused.
    pub fn begin_trial(&mut self, trial: u32) -> Result<(), Error> {
        let metric = self.plan.metric;
        let (again, first): (Vec<usize>, Vec<usize>) = (0..self.workers.len())
            .filter(|&worker| !self.has_begun || self.is_started_anew(worker))
            .partition(|_| self.has_begun);
        self.end(&again)?;
        let (victims, others): (Vec<usize>, Vec<usize>) = [again, first]
            .concat()
            .into_iter()
            .partition(|&worker| self.workers[worker].role == metric);
        self.start(&others, trial)?;
        if self.plan.variants[metric].iter().any(|variant| matches!(variant.task, Task::Chase(_))) {
            // One by one, so that each is alone while it measures itself.
            for victim in victims {
                self.start(&[victim], trial)?;
            }
        } else {
            self.start(&victims, trial)?;
        }
        self.has_begun = true;
        Ok(())
    }

    // A probe of a service that was running before keeps asking it: nothing of that service is new
    // in another trial.
    fn is_started_anew(&self, worker: usize) -> bool {
        let worker = &self.workers[worker];
        worker.role == self.plan.metric && !worker.probe
    }

    fn start(&mut self, workers: &[usize], trial: u32) -> Result<(), Error> {
        for &worker in workers {
            self.slot(worker).reset();
            let Worker { slot, role, instance, ref home, ref variants, .. } = self.workers[worker];
            let assigned =
                |variant: &Variant| Assigned { task: variant.task.clone(), quota: variant.quota };
            let tasks: Vec<Option<Assigned>> = self.plan.variants[role]
                .iter()
                .enumerate()
                .map(|(index, variant)| variants.contains(&index).then(|| assigned(variant)))
                .collect();
            let seed =
                (self.plan.experiment.seed << 24) ^ (u64::from(trial) << 8) ^ u64::from(instance);
            let stops_at_limits = self.plan.experiment.measure.episode.is_some();
            let spec =
                Spec { slot, home: home.clone(), seed, tasks, stops_at_limits, cgroup: None };
            self.guardian
                .start_worker(spec)
                .map_err(Error::trying("the guardian process does not answer"))?;
            (self.workers[worker].ordered, self.workers[worker].ended) = (order::PAUSE, None);
        }
        for &worker in workers {
            self.wait(worker, ANSWER_LIMIT, "is not ready after 120 s", |slot| {
                slot.wait_state(state::PAUSED, LOOK)
            })?;
            self.note_start(worker, trial);
            // By now its process id has been reported. Without counters the samples have none, and
            // `doctor` says why.
            self.listen(Duration::ZERO)?;
            let this = &mut self.workers[worker];
            this.counters = this
                .pid
                .filter(|_| !this.on_demand && !this.program)
                .and_then(|pid| Counters::of(pid).ok());
            if let Some(counters) = &mut this.counters
                && counters.start().is_err()
            {
                this.counters = None;
            }
        }
        Ok(())
    }

    // What a victim has measured of itself before it said that it is ready.
    fn note_start(&mut self, worker: usize, trial: u32) {
        let Worker { role, instance, .. } = self.workers[worker];
        let alone: Vec<Alone> =
            serde_json::from_str(&self.slot(worker).message()).unwrap_or_default();
        if role == self.plan.metric {
            self.starts.extend(alone.iter().map(|Alone { variant, ns }| Start {
                trial,
                instance,
                variant: *variant,
                ns: *ns,
            }));
        }
    }

    fn end(&mut self, workers: &[usize]) -> Result<(), Error> {
        for &worker in workers {
            let slot = self.workers[worker].slot;
            self.guardian
                .end_worker(slot)
                .map_err(Error::trying("the guardian process does not answer"))?;
        }
        for &worker in workers {
            if self.ended(worker, ANSWER_LIMIT)?.is_none() && self.workers[worker].pid.is_some() {
                return Err(Error::failed(format!("{} does not end", self.name(worker))));
            }
        }
        Ok(())
    }

    /// Gives every worker the order that a set of active tasks means for it, and waits until it
    /// obeys.
    pub fn switch(&mut self, active: &[Active]) -> Result<(), Error> {
        let wanted: Vec<u32> = self
            .workers
            .iter()
            .map(|worker| {
                let runs = |a: &&Active| a.role == worker.role && worker.instance < a.count;
                match active.iter().find(runs) {
                    Some(a) if worker.variants.contains(&a.variant) => {
                        order::RUN + a.variant as u32
                    }
                    _ => order::PAUSE,
                }
            })
            .collect();
        // Pause tasks before resuming any.
        for pausing in [true, false] {
            let changed: Vec<usize> = (0..wanted.len())
                .filter(|&w| {
                    wanted[w] != self.workers[w].ordered && (wanted[w] == order::PAUSE) == pausing
                })
                .collect();
            for &worker in &changed {
                self.slot(worker).give(wanted[worker]);
                self.workers[worker].ordered = wanted[worker];
            }
            for &worker in &changed {
                let state = match wanted[worker] {
                    order::PAUSE => state::PAUSED,
                    run => state::RUNNING + (run - order::RUN),
                };
                self.wait(
                    worker,
                    ANSWER_LIMIT,
                    "does not react to the request to pause or run",
                    |slot| slot.wait_state(state, LOOK),
                )?;
            }
        }
        Ok(())
    }

    /// Stops workers where they are, in the middle of their tasks.
    pub fn hold(&mut self, workers: &[usize]) -> Result<(), Error> {
        for &worker in workers {
            self.slot(worker).give(order::HOLD);
            self.workers[worker].ordered = order::HOLD;
        }
        for &worker in workers {
            self.wait(worker, ANSWER_LIMIT, "does not react to the request to stop", |slot| {
                slot.wait_state(state::HELD, LOOK)
            })?;
        }
        Ok(())
    }

    /// Whether all of these, at least one, have reached their limits.
    pub fn all_spent(&self, workers: &[usize]) -> bool {
        !workers.is_empty() && workers.iter().all(|&worker| self.slot(worker).spent())
    }

    /// What probes say of themselves once they have paused.
    pub fn hear_probes(&mut self) -> Vec<String> {
        let probes: Vec<usize> = (0..self.workers.len())
            .filter(|&worker| self.workers[worker].probe && self.workers[worker].ended.is_none())
            .collect();
        if probes.is_empty() || self.switch(&[]).is_err() {
            return Vec::new();
        }
        let messages = probes.into_iter().map(|worker| self.slot(worker).message());
        messages.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()).collect()
    }
}
