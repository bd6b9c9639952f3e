//! The engine of this machine: a process per task, pinned, and a ping-pong between them.

mod crew;
mod disks;
mod episode;
mod guests;
mod members;
mod readings;
mod said;
mod slices;
mod stretches;
mod windows;

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use ringfence_experiment::plan::{Active, Plan};
use ringfence_experiment::start::Start;
use ringfence_experiment::task::{Attached, Task};
use ringfence_machine::clock::Clock;
use ringfence_machine::cpulist::CpuId;
use ringfence_machine::probe;
use ringfence_machine::root::FsRoot;
use ringfence_machine::topology::Topology;

use super::priority::First;
use super::write_budget::Written;
use super::{Engine, EngineError, Measured, Used};
use crew::Crew;
use disks::Disks;
use guests::Guest;
pub use guests::find_all;
use members::Members;
use ringfence_limits::Isolation;

// How often it is looked in a long window how much was written.
const LOOK_AT_WRITES: Duration = Duration::from_millis(500);

// Only some of the engine's fields, so that its isolations can be changed meanwhile.
macro_rules! members {
    ($engine:expr) => {
        Members { crew: &$engine.crew, guests: &$engine.guests, services: &$engine.services }
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
    crew: Crew<'a>,
    clock: &'static Clock,
    origin: u64,
    started: Instant,
    give_up_at: Option<Duration>,
    // By role.
    used: Vec<Used>,
    drifting: bool,
    disks: Disks,
    written: Written,
    // When it was looked at last how much was written.
    looked_at_writes: Option<Instant>,
    guests: Vec<Guest>,
    // Whose answers probes time, by role.
    services: Vec<(usize, Attached)>,
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
        let crew = Crew::new(plan, topology, stop)?;
        let clock = Clock::host();
        let services = members::services(plan);
        let disks = Disks::below(&FsRoot::host(), crew.tasks().filter_map(Task::works_in));
        Ok(Self {
            isolations,
            arm_of,
            arm: 0,
            plan,
            crew,
            clock,
            origin: clock.now(),
            started: Instant::now(),
            give_up_at: None,
            used: vec![Used::default(); plan.experiment.roles.len()],
            drifting: false,
            disks,
            written: Written::default(),
            looked_at_writes: None,
            guests,
            services,
            silent: 0,
            silent_alone: false,
            earlier,
            // After the guardian was started, which would have it from here.
            _first: First::now(),
        })
    }

    fn end_trial(&mut self) {
        let tasks = members!(self);
        self.isolations.iter_mut().for_each(|isolation| isolation.end_trial(&tasks));
    }

    fn look_at_writes(&mut self) {
        self.written.look(&FsRoot::host(), self.crew.writers());
        self.looked_at_writes = Some(Instant::now());
    }

    // Only where none of them writes to files outside of the folders whose disks are known.
    fn written_by_disks(&self) -> Option<u64> {
        let mut tasks = self.plan.variants.iter().flatten().map(|variant| &variant.task);
        let elsewhere = tasks.any(|task| task.writes_files() && !task.uses_a_disk());
        if elsewhere { None } else { self.disks.written_bytes(&FsRoot::host()) }
    }

    // Fails if a long window is to end early.
    fn may_go_on(&mut self) -> Result<(), EngineError> {
        self.crew.may_go_on()?;
        self.keep_the_write_limit(LOOK_AT_WRITES)?;
        if self.give_up_at.is_some_and(|at| self.started.elapsed() > at) {
            return Err(EngineError::OutOfTime);
        }
        Ok(())
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
}

impl Engine for HostEngine<'_> {
    fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    fn give_up_at(&mut self, at: Option<Duration>) {
        self.give_up_at = at;
    }

    fn stop_half_of_the_time(&mut self, stop: bool) {
        self.crew.halved = stop;
    }

    fn used(&self, role: usize) -> Used {
        self.used[role]
    }

    fn begin_trial(&mut self, trial: u32) -> Result<(), EngineError> {
        if self.crew.has_begun() {
            self.end_trial();
        }
        self.crew.switch(&[])?;
        self.look_at_writes();
        self.crew.begin_trial(trial)?;
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
        told.extend(self.crew.hear_probes());
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
        std::mem::take(&mut self.crew.starts)
    }

    fn probe(&mut self, cpus: &[CpuId]) -> Result<Option<f64>, EngineError> {
        let length = self.plan.experiment.measure.probe.0;
        let Some((&home, others)) = cpus.split_first() else { return Ok(None) };
        if others.is_empty() || length.is_zero() {
            return Ok(None);
        }
        self.crew.switch(&[])?;
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
