//! The engine of this machine: a process per task, pinned, and a ping-pong between them.

use std::time::{Duration, Instant};

use ringfence_machine::clock::Clock;
use ringfence_machine::counters::Counters;
use ringfence_machine::cpulist::CpuId;
use ringfence_machine::probe;
use ringfence_machine::topology::Topology;

use super::crew::{self, Worker};
use super::guardian::{Event, Guardian};
use super::settle::Settling;
use super::shm::{Report, Shared, Slot, order, state};
use super::worker::{Failure, Spec};
use super::{Counts, Engine, EngineError, Measured};
use crate::plan::{Active, Plan};
use crate::task::Task;

// Mapping and touching a large target on a slow medium takes its time.
const START_LIMIT: Duration = Duration::from_secs(120);
const SWITCH_LIMIT: Duration = Duration::from_secs(20);
// How often a worker that is waited for is looked after.
const LOOK: Duration = Duration::from_millis(100);
// A window is held open so long for a task that has reported nothing in it.
const STALL_LIMIT: Duration = Duration::from_secs(2);
// A task that asks for longer to settle is measured unsettled: the window shows what it does then.
const SETTLE_LIMIT: Duration = Duration::from_millis(200);

/// Runs tasks on this machine.
pub struct HostEngine {
    plan: Plan,
    shared: Shared,
    guardian: Guardian,
    workers: Vec<Worker>,
    clock: &'static Clock,
    origin: u64,
    life: Option<u32>,
}

impl HostEngine {
    /// Prepares an engine for a plan; nothing runs yet. The program must call
    /// [`super::guardian::enter_hidden_role`] first in its `main`.
    ///
    /// # Errors
    /// Where the guardian cannot be started.
    pub fn new(plan: &Plan, topology: &Topology) -> Result<Self, EngineError> {
        let workers = crew::workers(plan);
        let failed = |what: &str, error: std::io::Error| EngineError::Failed(format!("{what}: {error}"));
        let shared =
            Shared::create(workers.len().max(1)).map_err(|e| failed("making shared memory failed", e))?;
        let guardian =
            Guardian::start(shared.fd()).map_err(|e| failed("starting the guardian process failed", e))?;
        crew::step_aside(topology, &workers);
        let clock = Clock::host();
        let plan = plan.clone();
        Ok(Self { plan, shared, guardian, workers, clock, origin: clock.now(), life: None })
    }

    /// The latencies of single operations that a role's first instance has counted in this life.
    pub fn histogram(&self, role: usize) -> Option<Vec<u64>> {
        let worker = self.workers.iter().find(|worker| worker.role == role)?;
        Some(self.shared.slot(worker.slot).histogram())
    }

    fn slot(&self, worker: usize) -> &Slot {
        self.shared.slot(self.workers[worker].slot)
    }

    fn name(&self, worker: usize) -> String {
        let worker = &self.workers[worker];
        let role = &self.plan.experiment.roles[worker.role].name;
        format!("{role} {} on CPU {}", worker.instance, worker.cpu)
    }

    // What went wrong with a worker that did not do as ordered.
    fn explain(&mut self, worker: usize, otherwise: &str) -> EngineError {
        let name = self.name(worker);
        if let Ok(failure) = serde_json::from_str::<Failure>(&self.slot(worker).message()) {
            let text = format!("{name}: {}", failure.text);
            return if failure.usage { EngineError::Usage(failure.text) } else { EngineError::Failed(text) };
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
            let Some(worker) = self.workers.iter_mut().find(|worker| worker.slot == slot) else { continue };
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
            self.listen(left)?;
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

    // Waits, looking now and then whether the worker still lives.
    fn wait(
        &mut self,
        worker: usize,
        limit: Duration,
        otherwise: &str,
        done: impl Fn(&Slot) -> bool,
    ) -> Result<(), EngineError> {
        let begun = Instant::now();
        while !done(self.slot(worker)) {
            let failed = self.slot(worker).state() == state::FAILED;
            if failed || self.ended(worker, Duration::ZERO)?.is_some() || begun.elapsed() > limit {
                return Err(self.explain(worker, otherwise));
            }
        }
        Ok(())
    }

    fn start(&mut self, workers: &[usize], life: u32) -> Result<(), EngineError> {
        for &worker in workers {
            self.slot(worker).reset();
            let Worker { slot, role, instance, cpu, ref variants, .. } = self.workers[worker];
            let tasks: Vec<Option<Task>> = self.plan.variants[role]
                .iter()
                .enumerate()
                .map(|(index, variant)| variants.contains(&index).then(|| variant.task.clone()))
                .collect();
            let seed = (self.plan.experiment.seed << 24) ^ (u64::from(life) << 8) ^ u64::from(instance);
            let spec = Spec { slot, cpu, seed, tasks };
            self.guardian.start_worker(spec).map_err(|error| {
                EngineError::Failed(format!("the guardian process does not answer: {error}"))
            })?;
            (self.workers[worker].ordered, self.workers[worker].ended) = (order::PAUSE, None);
        }
        for &worker in workers {
            self.wait(worker, START_LIMIT, "is not ready after 120 s", |slot| {
                slot.wait_state(state::PAUSED, LOOK)
            })?;
            // By now its process id has been reported. Without counters the samples have none, and
            // `doctor` says why.
            self.listen(Duration::ZERO)?;
            let this = &mut self.workers[worker];
            this.counters = this.pid.filter(|_| !this.on_demand).and_then(|pid| Counters::of(pid).ok());
            if let Some(counters) = &mut this.counters
                && counters.start().is_err()
            {
                this.counters = None;
            }
        }
        Ok(())
    }

    fn counts(&mut self, workers: &[usize]) -> Vec<Option<Counts>> {
        let read = |worker: &usize| {
            let counts = self.workers[*worker].counters.as_mut()?.read().ok()?;
            Some(Counts {
                cycles: counts.cycles,
                instructions: counts.instructions,
                llc_misses: counts.llc_load_misses.or(counts.cache_misses),
            })
        };
        workers.iter().map(read).collect()
    }

    fn end(&mut self, workers: &[usize]) -> Result<(), EngineError> {
        for &worker in workers {
            let slot = self.workers[worker].slot;
            self.guardian.end_worker(slot).map_err(|error| {
                EngineError::Failed(format!("the guardian process does not answer: {error}"))
            })?;
        }
        for &worker in workers {
            if self.ended(worker, SWITCH_LIMIT)?.is_none() && self.workers[worker].pid.is_some() {
                return Err(EngineError::Failed(format!("{} cannot be ended", self.name(worker))));
            }
        }
        Ok(())
    }

    // Gives every worker the order that a set of active tasks means for it, and waits until it obeys.
    fn switch(&mut self, active: &[Active]) -> Result<(), EngineError> {
        let wanted: Vec<u32> = self
            .workers
            .iter()
            .map(|worker| {
                let runs = |a: &&Active| a.role == worker.role && worker.instance < a.count;
                match active.iter().find(runs) {
                    Some(a) if worker.variants.contains(&a.variant) => order::RUN + a.variant as u32,
                    _ => order::PAUSE,
                }
            })
            .collect();
        // Whoever pauses does so before anybody else goes on.
        for pausing in [true, false] {
            let changed: Vec<usize> = (0..wanted.len())
                .filter(|&w| wanted[w] != self.workers[w].ordered && (wanted[w] == order::PAUSE) == pausing)
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
                self.wait(worker, SWITCH_LIMIT, "does not pause or run as ordered", |slot| {
                    slot.wait_state(state, LOOK)
                })?;
            }
        }
        Ok(())
    }

    fn running(&self) -> Vec<usize> {
        (0..self.workers.len()).filter(|&worker| self.workers[worker].ordered != order::PAUSE).collect()
    }

    // The present report of each worker; those that report on demand are asked first.
    fn reports(&mut self, workers: &[usize]) -> Result<Vec<(u64, Report)>, EngineError> {
        let asked: Vec<Option<u32>> = workers
            .iter()
            .map(|&worker| self.workers[worker].on_demand.then(|| self.slot(worker).ask()))
            .collect();
        for (&worker, number) in workers.iter().zip(asked) {
            self.wait(worker, SWITCH_LIMIT, "does not report", |slot| {
                slot.state() != state::FAILED && number.is_none_or(|number| slot.wait_answer(number, LOOK))
            })?;
        }
        Ok(workers.iter().map(|&worker| self.slot(worker).latest()).collect())
    }

    fn settle(&mut self, running: &[usize]) -> Result<(), EngineError> {
        let begun = Instant::now();
        let least = self.plan.experiment.measure.settle.0;
        let follow = |&worker: &usize| {
            let slot = self.slot(worker);
            (worker, Settling::new(slot.settle_units(), slot.latest().1))
        };
        let mut tasks: Vec<(usize, Settling)> = running.iter().map(follow).collect();
        let limit = SETTLE_LIMIT.max(least);
        loop {
            tasks.retain_mut(|(worker, settling)| !settling.settled(self.slot(*worker).latest().1));
            let left = if tasks.is_empty() { least } else { limit }.saturating_sub(begun.elapsed());
            if left.is_zero() {
                return Ok(());
            }
            let step = if tasks.is_empty() { left } else { left.min(Duration::from_millis(1)) };
            std::thread::sleep(step);
        }
    }
}

impl Engine for HostEngine {
    fn begin_life(&mut self, life: u32) -> Result<(), EngineError> {
        let metric = self.plan.metric;
        self.switch(&[])?;
        let (again, first): (Vec<usize>, Vec<usize>) = (0..self.workers.len())
            .filter(|&worker| self.life.is_none() || self.workers[worker].role == metric)
            .partition(|_| self.life.is_some());
        self.end(&again)?;
        self.start(&[again, first].concat(), life)?;
        self.life = Some(life);
        Ok(())
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
                longest = Some(longest.map_or(round.median_ns, |longest| longest.max(round.median_ns)));
            }
        }
        Ok(longest)
    }

    fn window(&mut self, active: &[Active]) -> Result<Vec<Measured>, EngineError> {
        self.switch(active)?;
        let running = self.running();
        self.settle(&running)?;
        let counts_before = self.counts(&running);
        let begun = self.reports(&running)?;
        let begun_at = self.clock.now();
        std::thread::sleep(self.plan.experiment.measure.window.0);
        let opened = Instant::now();
        let mut ended = self.reports(&running)?;
        while begun.iter().zip(&ended).any(|(begun, ended)| begun.0 == ended.0)
            && opened.elapsed() < STALL_LIMIT
        {
            std::thread::sleep(Duration::from_millis(1));
            self.all_live(&running)?;
            ended = self.reports(&running)?;
        }
        let ended_at = self.clock.now();
        let counts_after = self.counts(&running);
        self.all_live(&running)?;
        let mut counts = counts_before.into_iter().zip(counts_after).map(|(a, b)| Some(since(a?, b?)));
        let ns = |ticks: u64| self.clock.ns(ticks).round() as u64;
        let measured = running.iter().zip(begun.iter().zip(&ended)).map(|(&worker, (begun, ended))| {
            let worker = &self.workers[worker];
            // A task that reported nothing did nothing in all that time.
            let (from, to) =
                if begun.0 == ended.0 { (begun_at, ended_at) } else { (begun.1.ticks, ended.1.ticks) };
            let length = to.saturating_sub(from);
            Measured {
                role: worker.role,
                instance: worker.instance,
                cpu: worker.cpu,
                start_ns: ns(from.saturating_sub(self.origin)),
                length_ns: ns(length),
                busy_ns: ns(length.saturating_sub(ended.1.untimed - begun.1.untimed)),
                units: ended.1.units - begun.1.units,
                counts: counts.next().flatten(),
            }
        });
        Ok(measured.collect())
    }
}

fn since(before: Counts, after: Counts) -> Counts {
    let minus = |after: Option<u64>, before: Option<u64>| Some(after?.saturating_sub(before?));
    Counts {
        cycles: minus(after.cycles, before.cycles),
        instructions: minus(after.instructions, before.instructions),
        llc_misses: minus(after.llc_misses, before.llc_misses),
    }
}
