//! Several trials at once. Each begins anew and its order is known beforehand, so that they can be
//! simulated beside each other, with the same samples as one after the other.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use ringfence_engine::{Engine, Measured};
use ringfence_experiment::Error;
use ringfence_experiment::plan::{self, Active, Plan};
use ringfence_machine::cpulist::CpuId;

use crate::engine::SimulatedEngine;
use crate::file::Description;
use crate::recordings::Recordings;

// So many trials for each thread are simulated before the end condition is checked.
const AHEAD: u32 = 2;

/// Runs a plan on a described machine, as [`SimulatedEngine`] does, trials at once. Windows are
/// those of the plan, in its order.
pub struct TrialsAtOnce<'a> {
    plan: Plan,
    description: Description,
    recordings: Recordings,
    stop: &'a AtomicBool,
    threads: u32,
    // For what needs no trial.
    alone: SimulatedEngine<'a>,
    ahead: BTreeMap<u32, Simulated>,
    now: Simulated,
    before_ns: u64,
}

// A trial.
#[derive(Default)]
struct Simulated {
    windows: VecDeque<(Vec<Active>, Vec<Measured>)>,
    // What ended it before its time.
    failed: Option<Error>,
    length_ns: u64,
}

impl<'a> TrialsAtOnce<'a> {
    /// As [`SimulatedEngine::new`], with so many trials at once.
    pub fn new(
        plan: &Plan,
        description: &Description,
        stop: &'a AtomicBool,
        threads: usize,
    ) -> Self {
        Self {
            plan: plan.clone(),
            description: description.clone(),
            recordings: Recordings::default(),
            stop,
            threads: threads.max(1) as u32,
            alone: SimulatedEngine::new(plan, description, stop),
            ahead: BTreeMap::new(),
            now: Simulated::default(),
            before_ns: 0,
        }
    }

    /// With the recorded programs that the plan plays.
    pub fn playing(mut self, recordings: &Recordings) -> Self {
        self.recordings = recordings.clone();
        self
    }

    // Simulates the trials up to the next possible end, which are needed in any case. Each goes to
    // the next idle thread, since some take much longer than others. Of many, only a few, since a
    // budget may end it before.
    fn simulate(&mut self, first: u32) {
        let looks = &self.plan.experiment.measure.looks;
        let wanted = looks.iter().copied().find(|look| *look > first).unwrap_or(first + 1);
        let wanted = wanted.min(first + AHEAD * self.threads);
        let (plan, description, recordings, stop) =
            (&self.plan, &self.description, &self.recordings, self.stop);
        let next = AtomicU32::new(first);
        let work = || {
            let taken = std::iter::repeat_with(|| next.fetch_add(1, Ordering::Relaxed));
            let taken = taken.take_while(|trial| *trial < wanted);
            taken
                .map(|trial| (trial, simulated((plan, description, recordings), stop, trial)))
                .collect::<Vec<_>>()
        };
        let found = std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..self.threads.min(wanted - first)).map(|_| scope.spawn(work)).collect();
            let joined = threads.into_iter().map(|thread| thread.join());
            joined
                .flat_map(|found| found.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .collect::<Vec<_>>()
        });
        self.ahead.extend(found);
    }
}

fn simulated(
    (plan, description, recordings): (&Plan, &Description, &Recordings),
    stop: &AtomicBool,
    trial: u32,
) -> Simulated {
    let mut engine = SimulatedEngine::new(plan, description, stop).playing(recordings);
    let mut windows = VecDeque::new();
    let mut run = || -> Result<(), Error> {
        engine.begin_trial(trial)?;
        for step in plan::trial(plan, trial).rounds.concat() {
            for case in step.windows {
                engine.arrange(case)?;
                let active = &plan.cases[case].active;
                windows.push_back((active.clone(), engine.window(active)?));
            }
        }
        Ok(())
    };
    let failed = run().err();
    Simulated { windows, failed, length_ns: engine.now_ns() }
}

impl Engine for TrialsAtOnce<'_> {
    fn elapsed(&self) -> Duration {
        self.alone.elapsed()
    }

    fn begin_trial(&mut self, trial: u32) -> Result<(), Error> {
        self.before_ns += self.now.length_ns;
        if !self.ahead.contains_key(&trial) {
            self.simulate(trial);
        }
        self.now = self.ahead.remove(&trial).unwrap_or_default();
        match self.now.failed.take_if(|_| self.now.windows.is_empty()) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    fn probe(&mut self, cpus: &[CpuId]) -> Result<Option<f64>, Error> {
        self.alone.probe(cpus)
    }

    fn arrange(&mut self, _: usize) -> Result<(), Error> {
        // Before each window, where it was simulated.
        Ok(())
    }

    fn window(&mut self, active: &[Active]) -> Result<Vec<Measured>, Error> {
        self.alone.count_window();
        match self.now.windows.pop_front() {
            Some((planned, mut measured)) if planned == active => {
                measured.iter_mut().for_each(|one| one.start_ns += self.before_ns);
                Ok(measured)
            }
            Some(_) => Err(Error::failed("windows came in another order than the plan's")),
            None => Err(self.now.failed.take().unwrap_or(Error::interrupted())),
        }
    }

    fn end(self: Box<Self>) -> Result<Vec<String>, Error> {
        Ok(Vec::new())
    }
}
