//! The engine of this machine: a process per task, pinned, and a ping-pong between them.

mod arms;
mod crew;
mod episode;
mod members;
mod notes;
mod pauses;
mod readings;
mod timed;
mod whole_run;

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use ringfence_experiment::Error;
use ringfence_experiment::plan::{Active, Plan};
use ringfence_experiment::start::Start;
use ringfence_machine::cpulist::CpuId;
use ringfence_machine::probe;
use ringfence_machine::topology::Topology;

use super::priority::First;
use super::{Engine, Measured, Used};
use arms::Arms;
use crew::Crew;
use members::Members;
use pauses::Pauses;
pub use pauses::find_all;
use readings::Readings;

// How often it is looked in a long window how much was written.
const LOOK_AT_WRITES: Duration = Duration::from_millis(500);

/// Runs tasks on this machine.
pub struct HostEngine<'a> {
    // Before the tasks end, so that they leave their groups first.
    arms: Arms,
    plan: &'a Plan,
    crew: Crew<'a>,
    started: Instant,
    give_up_at: Option<Duration>,
    pauses: Pauses,
    readings: Readings,
    // What the user should know, one sentence each.
    notes: Vec<String>,
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
    pub fn new(plan: &'a Plan, topology: &Topology, stop: &'a AtomicBool) -> Result<Self, Error> {
        // Leftovers of earlier programs that were found and restored.
        let notes = ringfence_limits::recover_all();
        let pauses = Pauses::of_plan(plan)?;
        let arms = Arms::of_plan(plan)?;
        let crew = Crew::new(plan, topology, stop)?;
        let readings = Readings::new(plan, &crew);
        Ok(Self {
            arms,
            plan,
            crew,
            pauses,
            readings,
            notes,
            started: Instant::now(),
            give_up_at: None,
            // After the guardian was started, which would have it from here.
            _first: First::now(),
        })
    }

    fn end_trial(&mut self) {
        self.arms.end_trial(&Members(&self.crew, &self.pauses));
    }

    // Fails if a long window is to end early.
    fn may_go_on(&mut self) -> Result<(), Error> {
        self.crew.may_go_on()?;
        self.readings.keep_the_write_limit(&self.crew, LOOK_AT_WRITES)?;
        if self.give_up_at.is_some_and(|at| self.started.elapsed() > at) {
            return Err(Error::out_of_time());
        }
        Ok(())
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
        self.readings.used(role)
    }

    fn begin_trial(&mut self, trial: u32) -> Result<(), Error> {
        if self.crew.has_begun() {
            self.end_trial();
        }
        self.crew.switch(&[])?;
        self.readings.look_at_writes(&self.crew);
        self.crew.begin_trial(trial)?;
        self.arms.begin_trial(&Members(&self.crew, &self.pauses))
    }

    fn arrange(&mut self, case: usize) -> Result<(), Error> {
        self.arms.arrange(case, &Members(&self.crew, &self.pauses))
    }

    fn end(mut self: Box<Self>) -> Result<Vec<String>, Error> {
        self.end_trial();
        self.readings.end(&self.crew);
        let mut told = std::mem::take(&mut self.notes);
        told.extend(notes::of_disks(self.plan, self.crew.tasks(), self.readings.wrote()));
        told.extend(notes::of_programs(self.plan, |role| self.readings.used(role)));
        told.extend(self.crew.hear_probes());
        let mut failed = None;
        for ended in std::iter::once(self.pauses.end()).chain(self.arms.end()) {
            match ended {
                Ok(notes) => told.extend(notes),
                // The others are restored all the same.
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        failed.map_or(Ok(told), Err)
    }

    fn starts(&mut self) -> Vec<Start> {
        std::mem::take(&mut self.crew.starts)
    }

    fn probe(&mut self, cpus: &[CpuId]) -> Result<Option<f64>, Error> {
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

    fn window(&mut self, active: &[Active]) -> Result<Vec<Measured>, Error> {
        self.pauses.keep_the_limit()?;
        self.readings.keep_the_write_limit(&self.crew, Duration::ZERO)?;
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
