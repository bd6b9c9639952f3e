//! The engine of a described machine: simulated time in place of a clock.
//!
//! Nothing disturbs a simulated window, so that it may be much shorter than a measured one; caches still take their time
//! to settle before. By [`Engine::elapsed`], by which budgets are kept, each window takes what the plan says, so that
//! a plan has as many trials here whatever the machine that simulates.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ringfence_engine::{Engine, EngineError, Measured};
use ringfence_experiment::histogram::{BUCKETS, Histogram};
use ringfence_experiment::plan::{Active, Plan};
use ringfence_experiment::sample::Sample;
use ringfence_machine::cpulist::CpuId;
use ringfence_sim::{Ps, Run, Setup, Thread};

use crate::actor::{Actor, Shared, Task};
use crate::file::Description;
use crate::isolation::Partitions;
use crate::noise::{Chairs, Host};
use crate::spans::{SETTLE_LIMIT, SHARE};
use crate::tasks::{self, Place, Regions};

// A window is not shorter or longer than this.
const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_millis(5);
// They have settled when no rate changes by more than this from one round to the next; a round takes so long at most.
const STEADY: f64 = 0.02;
const ROUND: Duration = Duration::from_millis(10);
// How long is waited for a task to count anything.
const STALL_LIMIT: Duration = Duration::from_millis(200);
// For how long is simulated at most until a stretch is over, and how much between two looks meanwhile.
const REACH_LIMIT: Duration = Duration::from_secs(1);
const STEP: Duration = Duration::from_micros(5);
// How much is simulated between two looks.
const LOOK: Duration = Duration::from_micros(50);

// What a paused core has begun has ended by then.
const DRAIN: Duration = Duration::from_micros(50);

/// Runs plans on a described machine.
pub struct SimulatedEngine<'a> {
    plan: Plan,
    description: Description,
    stop: &'a AtomicBool,
    cpus: Vec<CpuId>,
    partitions: Option<Partitions>,
    trial: Option<Trial>,
    // Of a virtual machine.
    host: Option<Host>,
    // Of all trials before.
    before: Ps,
    elapsed: Duration,
}

// A start of everybody.
struct Trial {
    run: Run,
    seats: Vec<Seat>,
    regions: Regions,
    // Of the metric's variants.
    stretches: Vec<(usize, Stretch)>,
    // Where CPUs move.
    chairs: Option<Chairs>,
}

// A CPU, and which of its tasks is whose.
struct Seat {
    cpu: CpuId,
    thread: Thread,
    shared: Arc<Shared>,
    holders: Vec<Holder>,
    // Of the holders, who runs.
    running: Option<usize>,
}

struct Holder {
    role: usize,
    instance: u32,
    variant: usize,
    // Units of a round over what caches have to settle to, beside others and alone.
    round: [u64; 2],
    least_window: Duration,
    goes_back: bool,
}

// What somebody who goes back does in each window of a trial, in units: until it is measured, and then.
#[derive(Debug, Clone, Copy)]
struct Stretch {
    before: u64,
    measured: u64,
}

// Who runs in a window: a seat, and its holder.
type Running = Vec<(usize, usize)>;

// What somebody has done at an end of a window.
struct Point {
    units: u64,
    at: Ps,
    untimed: u64,
    latencies: Option<[u64; BUCKETS]>,
}

impl<'a> SimulatedEngine<'a> {
    /// Prepares an engine for a plan of [`crate::plan`]. Setting `stop` ends it within a moment.
    pub fn new(plan: &Plan, description: &Description, stop: &'a AtomicBool) -> Self {
        let measured = plan.measured().into_iter().flat_map(|case| [Some(case), plan.cases[case].baseline]);
        let active: Vec<Active> =
            measured.flatten().flat_map(|case| plan.cases[case].active.clone()).collect();
        let mut cpus: Vec<CpuId> = active
            .iter()
            .flat_map(|active| plan.placed.cpus[active.role].iter().take(active.count as usize).copied())
            .collect();
        cpus.sort_unstable();
        cpus.dedup();
        Self {
            plan: plan.clone(),
            description: description.clone(),
            stop,
            cpus,
            partitions: Partitions::of(plan, description),
            trial: None,
            host: description.noise.map(|_| Host::new(plan.experiment.seed, description.cpu_count())),
            before: Ps::ZERO,
            elapsed: Duration::ZERO,
        }
    }

    // The time that a window takes by the plan.
    pub(crate) fn count_window(&mut self) {
        let measure = &self.plan.experiment.measure;
        self.elapsed += measure.settle.0 + measure.window.0;
    }

    // How long has been simulated.
    pub(crate) fn now_ns(&self) -> u64 {
        ns(self.before + self.trial.as_ref().map_or(Ps::ZERO, |trial| trial.run.now()))
    }

    // Everybody's tasks on the machine, paused.
    fn begin(&self, trial: u32) -> Result<Trial, tasks::SetupError> {
        let seed = (self.plan.experiment.seed << 24) ^ (u64::from(trial) << 8);
        let mut setup = Setup::new(&self.description.parts, seed)?;
        let every = (0..self.description.cpu_count()).map(|cpu| self.description.thread(cpu));
        let chairs = self.host.as_ref().map(|_| Chairs::new(&mut setup, every)).transpose()?;
        let mut regions = Regions::of(&self.plan);
        let mut seats = Vec::new();
        for &cpu in &self.cpus {
            let (mut holders, mut programs): (Vec<Holder>, Vec<Box<dyn Task>>) = (Vec::new(), Vec::new());
            for (role, instance) in self.holders(cpu) {
                for (variant, what) in self.plan.variants[role].iter().enumerate() {
                    if !self.runs(role, instance, variant) {
                        continue;
                    }
                    let seed = seed ^ u64::from(instance);
                    let (description, regions) = (&self.description, &mut regions);
                    let mut place = Place { description, setup: &mut setup, regions, cpu, seed };
                    if let Some(task) = tasks::build(&what.task, &mut place)? {
                        let round = [false, true].map(|alone| task.round(alone));
                        let (least_window, goes_back) = (task.least_window(), task.goes_back());
                        holders.push(Holder { role, instance, variant, round, least_window, goes_back });
                        programs.push(task);
                    }
                }
            }
            if programs.is_empty() {
                continue;
            }
            let shared = Arc::new(Shared::default());
            let actor = Actor::new(shared.clone(), programs);
            let thread = match self.host.as_ref().zip(chairs.as_ref()) {
                Some((host, chairs)) => chairs.seat(host.place(cpu), Some(actor)),
                None => setup.program(self.description.thread(cpu), 0, actor)?,
            };
            seats.push(Seat { cpu, thread, shared, holders, running: None });
        }
        let mut run = setup.start();
        seats.iter().for_each(|seat| run.pause(seat.thread));
        chairs.iter().flat_map(Chairs::threads).for_each(|thread| run.pause(thread));
        Ok(Trial { run, seats, regions, stretches: Vec::new(), chairs })
    }

    // Roles and instances that are placed on a CPU.
    fn holders(&self, cpu: CpuId) -> Vec<(usize, u32)> {
        let placed = self.plan.placed.cpus.iter().enumerate();
        let of_role = |(role, cpus): (usize, &Vec<CpuId>)| {
            cpus.iter()
                .enumerate()
                .filter(|(_, placed)| **placed == cpu)
                .map(|(instance, _)| (role, instance as u32))
                .collect::<Vec<_>>()
        };
        placed.flat_map(of_role).collect()
    }

    // Whether any case that is run has this instance do this.
    fn runs(&self, role: usize, instance: u32, variant: usize) -> bool {
        let is_it =
            |active: &Active| (active.role, active.variant) == (role, variant) && instance < active.count;
        let measured = self.plan.measured().into_iter();
        let mut cases = measured.flat_map(|case| [Some(case), self.plan.cases[case].baseline]).flatten();
        cases.any(|case| self.plan.cases[case].active.iter().any(is_it))
    }
}

impl Trial {
    // Everybody gets up, and sits down where the host has moved them.
    fn reseat(&mut self, host: &Host) {
        let Some(chairs) = &self.chairs else { return };
        let stand_up = |seat: &mut Seat| {
            self.run.pause(seat.thread);
            chairs.clear(seat.thread)
        };
        let actors: Vec<Option<Actor>> = self.seats.iter_mut().map(stand_up).collect();
        for (seat, actor) in self.seats.iter_mut().zip(actors) {
            seat.thread = chairs.seat(host.place(seat.cpu), actor);
            seat.running = None;
        }
    }

    // Lets exactly these run.
    fn switch(&mut self, active: &[Active]) -> Running {
        let mut running = Running::new();
        for (place, seat) in self.seats.iter_mut().enumerate() {
            let is_active = |holder: &Holder| {
                active.iter().any(|active| {
                    (active.role, active.variant) == (holder.role, holder.variant)
                        && holder.instance < active.count
                })
            };
            let now = seat.holders.iter().position(is_active);
            let goes_back = now.is_some_and(|holder| seat.holders[holder].goes_back);
            if now.is_some() && (now != seat.running || goes_back) {
                seat.shared.resumed.fetch_add(1, Ordering::Relaxed);
            }
            seat.running = now;
            match now {
                Some(holder) => {
                    seat.shared.order.store(holder, Ordering::Relaxed);
                    self.run.resume(seat.thread);
                    running.push((place, holder));
                }
                None => self.run.pause(seat.thread),
            }
        }
        running
    }

    fn simulate(&mut self, span: Duration, stop: &AtomicBool) -> Result<(), EngineError> {
        let until = self.run.now() + ps(span);
        while self.run.now() < until {
            if stop.load(Ordering::Relaxed) {
                return Err(EngineError::Interrupted);
            }
            self.run.until(until.min(self.run.now() + ps(LOOK)));
        }
        Ok(())
    }

    // Until everybody is as fast in one round as in the one before.
    fn settle(&mut self, running: &Running, least: Duration, stop: &AtomicBool) -> Result<(), EngineError> {
        let begun = self.run.now();
        self.simulate(least, stop)?;
        let mut last = self.round(running, SETTLE_LIMIT, stop)?;
        while self.run.now() - begun < ps(SETTLE_LIMIT) {
            let rates = self.round(running, ROUND, stop)?;
            let steady = |(now, before): (&f64, &f64)| (now - before).abs() <= STEADY * before;
            if rates.iter().zip(&last).all(steady) {
                break;
            }
            last = rates;
        }
        Ok(())
    }

    // Simulates until everybody has done a round, for so long at most: units per picosecond of those that have rounds.
    fn round(
        &mut self,
        running: &Running,
        most: Duration,
        stop: &AtomicBool,
    ) -> Result<Vec<f64>, EngineError> {
        let roles = || running.iter().map(|(seat, holder)| self.seats[*seat].holders[*holder].role);
        let alone = usize::from(roles().max() == roles().min());
        let (begun, before) = (self.run.now(), self.points(running, false));
        let rounds: Vec<u64> =
            running.iter().map(|(seat, holder)| self.seats[*seat].holders[*holder].round[alone]).collect();
        let unfinished = |trial: &Self| {
            let now = trial.points(running, false);
            rounds
                .iter()
                .zip(before.iter().zip(&now))
                .any(|(round, (before, now))| now.units - before.units < *round)
        };
        while unfinished(self) && self.run.now() - begun < ps(most) {
            self.simulate(LOOK, stop)?;
        }
        let now = self.points(running, false);
        let rated = rounds
            .iter()
            .zip(before.iter().zip(&now))
            .filter(|(round, (before, now))| **round > 0 && now.at > before.at);
        let rate = |(_, (before, now)): (&u64, (&Point, &Point))| {
            (now.units - before.units) as f64 / (now.at - before.at).0 as f64
        };
        Ok(rated.map(rate).collect())
    }

    // What is known of the stretch of somebody.
    fn stretch(&self, (seat, holder): (usize, usize)) -> Option<Stretch> {
        let variant = self.seats[seat].holders[holder].variant;
        self.stretches.iter().find(|(known, _)| *known == variant).map(|(_, stretch)| *stretch)
    }

    fn note_stretch(&mut self, (seat, holder): (usize, usize), stretch: Stretch) {
        if stretch.measured > 0 {
            self.stretches.push((self.seats[seat].holders[holder].variant, stretch));
        }
    }

    // Simulates until somebody has done so many units, or for as long as nobody takes.
    fn reach(
        &mut self,
        running: &Running,
        place: usize,
        units: u64,
        stop: &AtomicBool,
    ) -> Result<(), EngineError> {
        let begun = self.run.now();
        while self.points(running, false)[place].units < units && self.run.now() - begun < ps(REACH_LIMIT) {
            self.simulate(STEP, stop)?;
        }
        Ok(())
    }

    fn points(&self, running: &Running, latencies: bool) -> Vec<Point> {
        let point = |(seat, _): &(usize, usize)| {
            let seat = &self.seats[*seat];
            Point {
                units: self.run.units(seat.thread),
                at: self.run.counted(seat.thread),
                untimed: seat.shared.tally.untimed_ps(),
                latencies: latencies.then(|| seat.shared.tally.latencies()),
            }
        };
        running.iter().map(point).collect()
    }
}

fn ps(span: Duration) -> Ps {
    Ps::from_ns(span.as_nanos() as u64)
}

fn ns(span: Ps) -> u64 {
    (span.0 + 500) / 1000
}

impl Engine for SimulatedEngine<'_> {
    fn elapsed(&self) -> Duration {
        self.elapsed
    }

    fn begin_trial(&mut self, trial: u32) -> Result<(), EngineError> {
        if let Some(last) = self.trial.take() {
            self.before = self.before + last.run.now();
        }
        let begun = self.begin(trial).map_err(|error| EngineError::Usage(error.to_string()))?;
        self.trial = Some(begun);
        Ok(())
    }

    // By what the description says of the ways between caches, there and back.
    fn probe(&mut self, cpus: &[CpuId]) -> Result<Option<f64>, EngineError> {
        self.elapsed += self.plan.experiment.measure.probe.0;
        let Some((&home, others)) = cpus.split_first() else { return Ok(None) };
        let place = |cpu: CpuId| self.host.as_ref().map_or(cpu, |host| host.place(cpu));
        let trip = |other: &CpuId| self.description.round_trip_ns(place(home), place(*other));
        Ok(others.iter().map(trip).reduce(f64::max))
    }

    // Masks hold at once, and evict nothing by themselves. Regions are locked anew: a window before may have flushed them.
    fn arrange(&mut self, case: usize) -> Result<(), EngineError> {
        let Some(partitions) = &self.partitions else { return Ok(()) };
        let Some(trial) = &mut self.trial else {
            return Err(EngineError::Failed("no trial has begun".into()));
        };
        let name = &self.plan.cases[case].arm;
        let arm = self.plan.experiment.arms.iter().position(|arm| arm.name == *name).unwrap_or_default();
        let failed = |error: ringfence_sim::SetupError| EngineError::Failed(error.to_string());
        partitions.set(arm, &self.description, &mut trial.run).map_err(failed)?;
        if trial.regions.locked().next().is_some() {
            // Flushes that are under way end before.
            trial.switch(&[]);
            trial.simulate(DRAIN, self.stop)?;
        }
        for (cpu, device, region) in trial.regions.locked() {
            let Some(seat) = trial.seats.iter().find(|seat| seat.cpu == cpu) else { continue };
            let llc = self.description.llc_and_socket(cpu).0;
            let of_reader = (seat.thread, region);
            partitions.lock((device, llc), &self.description, &mut trial.run, of_reader).map_err(failed)?;
        }
        Ok(())
    }

    fn window(&mut self, active: &[Active]) -> Result<Vec<Measured>, EngineError> {
        self.count_window();
        let measure = &self.plan.experiment.measure;
        let (settle, window) = (measure.settle.0 / SHARE, measure.window.0 / SHARE);
        let window = window.clamp(SHORTEST.min(measure.window.0), LONGEST);
        let counted =
            |active: &Active| self.plan.variants[active.role][active.variant].task.counts_latencies();
        let latencies = active.iter().any(counted);
        let Some(trial) = &mut self.trial else {
            return Err(EngineError::Failed("no trial has begun".into()));
        };
        if let Some(host) = &mut self.host
            && host.advance(self.elapsed)
        {
            trial.reseat(host);
        }
        let rate = self.host.as_ref().map_or(1.0, |host| host.rate(self.elapsed));
        let running = trial.switch(active);
        let least = running.iter().map(|(seat, holder)| trial.seats[*seat].holders[*holder].least_window);
        let window = window.max(least.max().unwrap_or_default());
        if let Some(partitions) = &self.partitions {
            for (seat, holder) in &running {
                let seat = &trial.seats[*seat];
                let (role, llc) = (seat.holders[*holder].role, self.description.llc_and_socket(seat.cpu).0);
                let assigned = trial.run.assign(seat.thread, partitions.class(role, llc));
                assigned.map_err(|error| EngineError::Failed(error.to_string()))?;
            }
        }
        // Whoever goes back is measured over the same stretch in every window of the trial.
        let metric = self.plan.metric;
        let back = running.iter().position(|(seat, holder)| {
            let holder = &trial.seats[*seat].holders[*holder];
            holder.role == metric && holder.goes_back
        });
        let known = back.and_then(|place| trial.stretch(running[place]));
        let origin = trial.points(&running, false);
        match (back, known) {
            (Some(place), Some(stretch)) => {
                trial.reach(&running, place, origin[place].units + stretch.before, self.stop)?
            }
            _ => trial.settle(&running, settle, self.stop)?,
        }
        let begun = trial.points(&running, latencies);
        match (back, known) {
            (Some(place), Some(stretch)) => {
                trial.reach(&running, place, begun[place].units + stretch.measured, self.stop)?
            }
            _ => trial.simulate(window, self.stop)?,
        }
        let mut ended = trial.points(&running, latencies);
        if let (Some(place), None) = (back, known) {
            let before = begun[place].units - origin[place].units;
            let measured = ended[place].units - begun[place].units;
            trial.note_stretch(running[place], Stretch { before, measured });
        }
        let opened = trial.run.now();
        while begun.iter().zip(&ended).any(|(begun, ended)| begun.units == ended.units)
            && trial.run.now() - opened < ps(STALL_LIMIT)
        {
            trial.simulate(LOOK, self.stop)?;
            ended = trial.points(&running, latencies);
        }
        let before = self.before;
        let measured =
            running.iter().zip(begun.iter().zip(&ended)).map(|((seat, holder), (begun, ended))| {
                let (cpu, holder) = (trial.seats[*seat].cpu, &trial.seats[*seat].holders[*holder]);
                let length = ended.at - begun.at;
                let busy = Ps(length.0.saturating_sub(ended.untimed - begun.untimed));
                let counts = begun.latencies.iter().zip(&ended.latencies).next();
                let latencies = counts.map(|(begun, ended)| {
                    Histogram::of_buckets(begun.iter().zip(ended).map(|(begun, ended)| ended - begun))
                });
                let sample = Sample {
                    instance: holder.instance,
                    cpu,
                    start_ns: ns(before + begun.at),
                    length_ns: (ns(length) as f64 / rate) as u64,
                    busy_ns: (ns(busy) as f64 / rate) as u64,
                    units: ended.units - begun.units,
                    late_ns: Some(0),
                    latencies: latencies.filter(|latencies| latencies.total() > 0),
                    simulated: Some(true),
                    ..Sample::default()
                };
                Measured { role: holder.role, sample }
            });
        Ok(measured.collect())
    }

    fn end(self: Box<Self>) -> Result<Vec<String>, EngineError> {
        Ok(Vec::new())
    }
}
