//! The engine of this machine: a process per task, pinned, and a ping-pong between them.

mod control;
mod disks;
mod drift;
mod episode;
mod guests;
mod members;
mod readings;
mod said;
mod slices;
mod stretches;
mod windows;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ringfence_experiment::plan::{Active, Plan};
use ringfence_experiment::start::Start;
use ringfence_experiment::task::Variant;
use ringfence_experiment::task::{Attached, Task};
use ringfence_machine::clock::Clock;
use ringfence_machine::counters::Counters;
use ringfence_machine::cpulist::CpuId;
use ringfence_machine::probe;
use ringfence_machine::root::FsRoot;
use ringfence_machine::topology::Topology;

use super::crew::{self, Worker};
use super::guardian::{Event, Guardian};
use super::priority::First;
use super::shm::{Shared, Slot, order, state};
use super::worker::{Alone, Assigned, Failure, Spec};
use super::write_budget::Written;
use super::{Engine, EngineError, Measured, Used};
use disks::Disks;
use guests::Guest;
pub use guests::find_all;
use members::Members;
use ringfence_limits::Isolation;

// Mapping a large target takes long, and so does waiting for a slow disk, or for a CPU under a
// quota on a busy machine.
const ANSWER_LIMIT: Duration = Duration::from_secs(120);
// How often it is looked in a long window how much was written.
const LOOK_AT_WRITES: Duration = Duration::from_millis(500);
// How often a worker that is waited for is looked after.
const LOOK: Duration = Duration::from_millis(100);

// Only some of the engine's fields, so that its isolations can be changed meanwhile.
macro_rules! members {
    ($engine:expr) => {
        Members {
            workers: &$engine.workers,
            guardian: &$engine.guardian,
            guests: &$engine.guests,
            services: &$engine.services,
        }
    };
}

/// Runs tasks on this machine.
pub struct HostEngine<'a> {
    // Before the tasks end, so that they leave their groups first.
    isolations: Vec<Box<dyn Isolation>>,
    arm_of: Vec<usize>,
    // The one that was arranged for last.
    arm: usize,
    plan: &'a Plan,
    stop: &'a AtomicBool,
    shared: Shared,
    guardian: Guardian,
    workers: Vec<Worker>,
    clock: &'static Clock,
    origin: u64,
    started: Instant,
    give_up_at: Option<Duration>,
    halved: bool,
    // By role.
    used: Vec<Used>,
    trial: Option<u32>,
    drifting: bool,
    starts: Vec<Start>,
    disks: Disks,
    written: Written,
    // When it was looked at last how much was written.
    looked_at_writes: Option<Instant>,
    guests: Vec<Guest>,
    // Whose answers probes time, by role.
    services: Vec<(usize, Attached)>,
    // What was said by those that were ended.
    told: Vec<String>,
    // Windows in a row in which the victim did not answer while others were paused.
    silent: u32,
    // Whether it did not in a window without a pause.
    silent_alone: bool,
    // Leftovers of earlier programs that were found and restored, one sentence each.
    earlier: Vec<String>,
    _first: First,
}

impl<'a> HostEngine<'a> {
    /// Prepares an engine for a plan; nothing runs yet. The program must call
    /// [`super::guardian::enter_hidden_role`] first in its `main`. Setting `stop` ends runs that
    /// are timed whole; shorter windows are finished first.
    ///
    /// # Errors
    /// Where the guardian cannot be started, and where something that an arm's isolation needs is
    /// missing, is being changed by another process, or refuses.
    pub fn new(
        plan: &'a Plan,
        topology: &Topology,
        stop: &'a AtomicBool,
    ) -> Result<Self, EngineError> {
        let earlier = ringfence_limits::recover_all();
        let guests = guests::of_plan(plan)?;
        let isolations = ringfence_limits::begin(plan)?;
        let arms = &plan.experiment.arms;
        let arm = |name: &str| arms.iter().position(|arm| arm.name == name).unwrap_or_default();
        let arm_of = plan.cases.iter().map(|case| arm(&case.arm)).collect();
        let workers = crew::workers(plan);
        let failed =
            |what: &str, error: std::io::Error| EngineError::Failed(format!("{what}: {error}"));
        let shared = Shared::create(workers.len().max(1))
            .map_err(|e| failed("creating shared memory failed", e))?;
        let guardian = Guardian::start(shared.fd())
            .map_err(|e| failed("starting the guardian process failed", e))?;
        crew::step_aside(topology, &workers);
        let clock = Clock::host();
        let services = members::services(plan);
        let tasks = |worker: &Worker| {
            let (role, variants) = (worker.role, worker.variants.clone());
            variants.into_iter().map(move |variant| &plan.variants[role][variant].task)
        };
        let disks = Disks::below(
            &FsRoot::host(),
            workers.iter().flat_map(tasks).filter_map(|task| task.works_in()),
        );
        Ok(Self {
            isolations,
            arm_of,
            arm: 0,
            plan,
            stop,
            shared,
            guardian,
            workers,
            clock,
            origin: clock.now(),
            started: Instant::now(),
            give_up_at: None,
            halved: false,
            used: vec![Used::default(); plan.experiment.roles.len()],
            trial: None,
            drifting: false,
            starts: Vec::new(),
            disks,
            written: Written::default(),
            looked_at_writes: None,
            guests,
            services,
            told: Vec::new(),
            silent: 0,
            silent_alone: false,
            earlier,
            // After the guardian was started, which would have it from here.
            _first: First::now(),
        })
    }

    fn slot(&self, worker: usize) -> &Slot {
        self.shared.slot(self.workers[worker].slot)
    }

    fn name(&self, worker: usize) -> String {
        let worker = &self.workers[worker];
        let role = &self.plan.experiment.roles[worker.role].name;
        format!("{role} {} on CPU {}", worker.instance, worker.home)
    }

    fn end_trial(&mut self) {
        let tasks = members!(self);
        self.isolations.iter_mut().for_each(|isolation| isolation.end_trial(&tasks));
    }

    // What went wrong with a worker that did not do as ordered.
    fn explain(&mut self, worker: usize, otherwise: &str) -> EngineError {
        let name = self.name(worker);
        if let Ok(failure) = serde_json::from_str::<Failure>(&self.slot(worker).message()) {
            if !failure.usage {
                return EngineError::Failed(format!("{name}: {}", failure.text));
            }
            // The CPU does not matter for what cannot be done, nor does the role where there is
            // one.
            return EngineError::Usage(match self.plan.experiment.roles.as_slice() {
                [_] => failure.text,
                roles => format!("{}: {}", roles[self.workers[worker].role].name, failure.text),
            });
        }
        match self.ended(worker, Duration::from_millis(50)) {
            Err(error) => error,
            Ok(Some(how)) => EngineError::Failed(format!("{name} ended: {how}")),
            Ok(None) => EngineError::Failed(format!("{name} {otherwise}")),
        }
    }

    // Takes in what the guardian reports, waiting up to `limit` for the first of it.
    fn listen(&mut self, limit: Duration) -> Result<(), EngineError> {
        let mut limit = limit;
        while let Some(event) =
            self.guardian.event(limit).map_err(|gone| EngineError::Failed(gone.to_string()))?
        {
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
    fn ended(&mut self, worker: usize, limit: Duration) -> Result<Option<String>, EngineError> {
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

    // An error where one of these has ended: what it reported last says nothing of the present.
    fn all_live(&mut self, workers: &[usize]) -> Result<(), EngineError> {
        self.listen(Duration::ZERO)?;
        match workers.iter().find(|worker| self.workers[**worker].ended.is_some()) {
            Some(&worker) => Err(self.explain(worker, "has ended")),
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
    ) -> Result<(), EngineError> {
        let begun = Instant::now();
        let is_starting = self.slot(worker).state() == state::STARTING;
        let long = is_starting || self.plan.experiment.measure.episode.is_some();
        while !done(self.slot(worker)) {
            if long && self.stop.load(Ordering::Relaxed) {
                return Err(EngineError::Interrupted);
            }
            let failed = self.slot(worker).state() == state::FAILED;
            if failed || self.ended(worker, Duration::ZERO)?.is_some() || begun.elapsed() > limit {
                return Err(self.explain(worker, otherwise));
            }
        }
        Ok(())
    }

    fn start(&mut self, workers: &[usize], trial: u32) -> Result<(), EngineError> {
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
            self.guardian.start_worker(spec).map_err(|error| {
                EngineError::Failed(format!("the guardian process does not answer: {error}"))
            })?;
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

    fn end(&mut self, workers: &[usize]) -> Result<(), EngineError> {
        for &worker in workers {
            let slot = self.workers[worker].slot;
            self.guardian.end_worker(slot).map_err(|error| {
                EngineError::Failed(format!("the guardian process does not answer: {error}"))
            })?;
        }
        for &worker in workers {
            if self.ended(worker, ANSWER_LIMIT)?.is_none() && self.workers[worker].pid.is_some() {
                return Err(EngineError::Failed(format!("{} does not end", self.name(worker))));
            }
        }
        Ok(())
    }

    // Gives every worker the order that a set of active tasks means for it, and waits until it
    // obeys.
    fn switch(&mut self, active: &[Active]) -> Result<(), EngineError> {
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

    // Processes of built-in tasks that may write to files. What programs write is theirs.
    fn look_at_writes(&mut self) {
        let may_write = |worker: &&Worker| {
            let mut tasks = worker
                .variants
                .iter()
                .map(|variant| &self.plan.variants[worker.role][*variant].task);
            tasks.any(|task| task.writes_files())
        };
        let processes: Vec<i32> =
            self.workers.iter().filter(may_write).filter_map(|worker| worker.pid).collect();
        self.written.look(&FsRoot::host(), processes.into_iter());
        self.looked_at_writes = Some(Instant::now());
    }

    // Only where none of them writes to files outside of the folders whose disks are known.
    fn written_by_disks(&self) -> Option<u64> {
        let mut tasks = self.plan.variants.iter().flatten().map(|variant| &variant.task);
        let elsewhere = tasks.any(|task| task.writes_files() && !task.uses_a_disk());
        if elsewhere { None } else { self.disks.written_bytes(&FsRoot::host()) }
    }

    // Looked at once in a while.
    fn keep_the_write_limit(&mut self, every: Duration) -> Result<(), EngineError> {
        if self.looked_at_writes.is_some_and(|at| at.elapsed() < every) {
            return Ok(());
        }
        self.look_at_writes();
        if self.written.is_nothing() {
            Ok(())
        } else {
            self.written.may_go_on(self.written_by_disks())
        }
    }

    // A probe of a service that was running before keeps asking it: nothing of that service is new
    // in another trial.
    fn is_started_anew(&self, worker: usize) -> bool {
        let worker = &self.workers[worker];
        worker.role == self.plan.metric && !worker.probe
    }

    // Whether the task that a worker is ordered to run counts latencies.
    fn counts_latencies(&self, worker: usize) -> bool {
        let Worker { role, ordered, .. } = self.workers[worker];
        let variant = ordered
            .checked_sub(order::RUN)
            .map(|variant| &self.plan.variants[role][variant as usize]);
        variant.is_some_and(|variant| variant.task.counts_latencies())
    }

    fn running(&self) -> Vec<usize> {
        (0..self.workers.len())
            .filter(|&worker| self.workers[worker].ordered != order::PAUSE)
            .collect()
    }
}

impl Engine for HostEngine<'_> {
    fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    fn give_up_at(&mut self, at: Option<Duration>) {
        self.give_up_at = at;
    }

    fn stop_half_of_the_time(&mut self, stop: bool) {
        self.halved = stop;
    }

    fn used(&self, role: usize) -> Used {
        self.used[role]
    }

    fn begin_trial(&mut self, trial: u32) -> Result<(), EngineError> {
        let metric = self.plan.metric;
        if self.trial.is_some() {
            self.end_trial();
        }
        self.switch(&[])?;
        self.look_at_writes();
        let (again, first): (Vec<usize>, Vec<usize>) = (0..self.workers.len())
            .filter(|&worker| self.trial.is_none() || self.is_started_anew(worker))
            .partition(|_| self.trial.is_some());
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
        self.trial = Some(trial);
        let tasks = members!(self);
        self.isolations.iter_mut().try_for_each(|isolation| isolation.begin_trial(&tasks))?;
        Ok(())
    }

    fn arrange(&mut self, case: usize) -> Result<(), EngineError> {
        let (arm, tasks) = (self.arm_of[case], members!(self));
        self.arm = arm;
        for isolation in &mut self.isolations {
            // Before the next window the tasks run until their rates are stable.
            self.drifting |= isolation.set(arm, &tasks)?;
        }
        Ok(())
    }

    fn end(mut self: Box<Self>) -> Result<Vec<String>, EngineError> {
        self.end_trial();
        self.look_at_writes();
        let by_disks = self.written_by_disks();
        self.written.end(by_disks);
        let mut told = std::mem::take(&mut self.earlier);
        told.extend(self.said_of_disks());
        told.extend(self.said_of_programs());
        self.hear_probes();
        told.append(&mut self.told);
        let mut failed = None;
        match guests::end(std::mem::take(&mut self.guests)) {
            Ok(sentences) => told.extend(sentences),
            Err(error) => failed = Some(error),
        }
        for isolation in std::mem::take(&mut self.isolations) {
            match isolation.end() {
                Ok(sentences) => told.extend(sentences),
                // The others are restored all the same.
                Err(error) => failed = failed.or(Some(error.into())),
            }
        }
        failed.map_or(Ok(told), Err)
    }

    fn starts(&mut self) -> Vec<Start> {
        std::mem::take(&mut self.starts)
    }

    fn probe(&mut self, cpus: &[CpuId]) -> Result<Option<f64>, EngineError> {
        let length = self.plan.experiment.measure.probe.0;
        let Some((&home, others)) = cpus.split_first() else { return Ok(None) };
        if others.is_empty() || length.is_zero() {
            return Ok(None);
        }
        self.switch(&[])?;
        let share = length / others.len() as u32;
        let mut longest: Option<f64> = None;
        for &other in others {
            // A probe that fails twice leaves the pair unprobed, which its class says.
            let mut tries = (0..2).map(|_| probe::ping_pong(home, other, share));
            if let Some(round) = tries.find_map(Result::ok) {
                longest =
                    Some(longest.map_or(round.median_ns, |longest| longest.max(round.median_ns)));
            }
        }
        Ok(longest)
    }

    fn window(&mut self, active: &[Active]) -> Result<Vec<Measured>, EngineError> {
        guests::keep_the_limit(&self.guests)?;
        self.keep_the_write_limit(Duration::ZERO)?;
        let metric = self.plan.metric;
        let whole = active.iter().any(|active| {
            active.role == metric
                && ringfence_experiment::plan::is_whole_run(
                    &self.plan.variants[metric][active.variant].task,
                )
        });
        match self.plan.experiment.measure.episode {
            Some(episode) => self.episode(active, episode),
            None if whole => self.whole_run(active),
            None => self.timed_window(active),
        }
    }
}
