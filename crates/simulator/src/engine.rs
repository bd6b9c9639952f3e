//! The engine of a described machine: simulated time in place of a clock.
//!
//! Nothing disturbs a simulated window, so that it may be much shorter than a measured one; caches
//! still take their time to settle before, longest where a last level adapts to the load. By
//! [`Engine::elapsed`], by which budgets are kept, each window takes what the plan says, so that a
//! plan has as many trials here whatever the machine that simulates.
//!
//! Every window of a plan is simulated, those of baselines as well, though they are much the same:
//! what one leaves in caches is what the next finds. Where one baseline stood for the others, a
//! victim with all ways took 101 ns a load instead of 27, because nothing brought it back after a
//! window in which it had few.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::hardware::machine::Replacement;
use crate::hardware::{Ps, Setup};
use ringfence_engine::{Engine, Measured};
use ringfence_experiment::Error;
use ringfence_experiment::histogram::Histogram;
use ringfence_experiment::plan::{Active, Plan};
use ringfence_machine::cpulist::CpuId;

use crate::actor::{Actor, Shared, Task};
use crate::file::Description;
use crate::isolation::Partitions;
use crate::noise::{Chairs, Host};
use crate::recordings::Recordings;
use crate::spans::{LOOK, SHARE};
use crate::tasks::{self, Place, Regions};
use crate::trial::{Holder, Point, SWING, Seat, Stretch, Trial, ns, ps};

// A window is not shorter or longer than this.
const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_millis(5);
// How long is waited for a task to count anything.
const STALL_LIMIT: Duration = Duration::from_millis(200);
// What a paused core has begun has ended by then.
const DRAIN: Duration = Duration::from_micros(50);

/// Runs plans on a described machine.
pub struct SimulatedEngine<'a> {
    plan: Plan,
    description: Description,
    recordings: Recordings,
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

impl<'a> SimulatedEngine<'a> {
    /// Prepares an engine for a plan of [`crate::plan`]. Setting `stop` ends it within a moment.
    pub fn new(plan: &Plan, description: &Description, stop: &'a AtomicBool) -> Self {
        let active: Vec<Active> =
            plan.run_cases().flat_map(|case| plan.cases[case].active.clone()).collect();
        let mut cpus: Vec<CpuId> = active
            .iter()
            .flat_map(|active| {
                (0..active.count).flat_map(|instance| {
                    plan.home(active.role, instance).iter().collect::<Vec<_>>()
                })
            })
            .collect();
        cpus.sort_unstable();
        cpus.dedup();
        Self {
            plan: plan.clone(),
            description: description.clone(),
            recordings: Recordings::default(),
            stop,
            cpus,
            partitions: Partitions::of(plan, description),
            trial: None,
            host: description
                .noise
                .map(|_| Host::new(plan.experiment.seed, description.cpu_count())),
            before: Ps::ZERO,
            elapsed: Duration::ZERO,
        }
    }

    /// With the recorded programs that the plan plays.
    pub fn playing(mut self, recordings: &Recordings) -> Self {
        self.recordings = recordings.clone();
        self
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

    // All tasks on the machine, paused.
    fn begin(&self, trial: u32) -> Result<Trial, tasks::SetupError> {
        let seed = (self.plan.experiment.seed << 24) ^ (u64::from(trial) << 8);
        let mut setup = Setup::new(&self.description.parts, seed)?;
        setup.fill_last_levels();
        let every = (0..self.description.cpu_count()).map(|cpu| self.description.thread(cpu));
        let chairs = self.host.as_ref().map(|_| Chairs::new(&mut setup, every)).transpose()?;
        let mut regions = Regions::of(&self.plan);
        let mut seats = Vec::new();
        for &cpu in &self.cpus {
            let (mut holders, mut programs): (Vec<Holder>, Vec<Box<dyn Task>>) =
                (Vec::new(), Vec::new());
            for (role, instance, share) in self.holders(cpu) {
                for (variant, what) in self.plan.variants[role].iter().enumerate() {
                    if !self.runs(role, instance, variant) {
                        continue;
                    }
                    let seed = seed ^ apart(role, instance);
                    let mut place = Place {
                        description: &self.description,
                        setup: &mut setup,
                        regions: &mut regions,
                        recordings: &self.recordings,
                        whose: (role, instance),
                        share,
                        cpu,
                        seed,
                    };
                    if let Some(task) = tasks::build(&what.task, &mut place)? {
                        let round = [false, true].map(|alone| task.round(alone));
                        let (least_window, goes_back) = (task.least_window(), task.goes_back());
                        let (first, fellows) = (share.0 == 0, Vec::new());
                        holders.push(Holder {
                            role,
                            instance,
                            first,
                            fellows,
                            variant,
                            round,
                            least_window,
                            goes_back,
                        });
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
        let llc = &self.description.parts.llc;
        let adaptive =
            (llc.replacement == Replacement::Drrip).then_some(u64::from(llc.size_kib) * 16);
        let mut trial = Trial { run, seats, regions, stretches: Vec::new(), adaptive, chairs };
        trial.introduce();
        Ok(trial)
    }

    // Roles and instances that have a CPU, and which of how many it is to each.
    fn holders(&self, cpu: CpuId) -> Vec<(usize, u32, (usize, usize))> {
        let placed = self.plan.placed.cpus.iter().enumerate();
        let all = placed
            .flat_map(|(role, cpus)| (0..cpus.len() as u32).map(move |instance| (role, instance)));
        let at_home = |(role, instance): (usize, u32)| {
            let home = self.plan.home(role, instance);
            let place = home.iter().position(|own| own == cpu)?;
            Some((role, instance, (place, home.len())))
        };
        all.filter_map(at_home).collect()
    }

    // Whether any case that is run has this instance do this.
    fn runs(&self, role: usize, instance: u32, variant: usize) -> bool {
        let is_it = |active: &Active| {
            (active.role, active.variant) == (role, variant) && instance < active.count
        };
        self.plan.run_cases().any(|case| self.plan.cases[case].active.iter().any(is_it))
    }
}

// Bits by which each task starts elsewhere: in places that are near each other, tasks would run in
// step.
fn apart(role: usize, instance: u32) -> u64 {
    (((role as u64) << 32) | (u64::from(instance) + 1)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

// Gives each running task its class of service.
fn assign_classes(trial: &mut Trial, partitions: &Partitions) -> Result<(), Error> {
    for seat in &trial.seats {
        let Some(holder) = seat.running else { continue };
        let class = partitions.class(seat.holders[holder].role, seat.cpu);
        let assigned = trial.run.assign(seat.thread, class);
        assigned.map_err(Error::failed_by)?;
    }
    Ok(())
}

// What a task did from one point to another, where the machine runs at this rate.
fn measured(begun: &Point, ended: &Point, rate: f64) -> Measured {
    let length = ended.at - begun.at;
    let busy = Ps(length.0.saturating_sub(ended.untimed - begun.untimed));
    let counts = begun.latencies.iter().zip(&ended.latencies).next();
    let latencies = counts.map(|(begun, ended)| {
        Histogram::of_buckets(begun.iter().zip(ended).map(|(begun, ended)| ended - begun))
    });
    Measured {
        length_ns: (ns(length) as f64 / rate) as u64,
        busy_ns: (ns(busy) as f64 / rate) as u64,
        units: ended.units - begun.units,
        late_ns: Some(0),
        latencies: latencies.filter(|latencies| latencies.total() > 0),
        simulated: true,
        ..Measured::default()
    }
}

impl Engine for SimulatedEngine<'_> {
    fn elapsed(&self) -> Duration {
        self.elapsed
    }

    fn begin_trial(&mut self, trial: u32) -> Result<(), Error> {
        if let Some(last) = self.trial.take() {
            self.before = self.before + last.run.now();
        }
        let begun = self.begin(trial).map_err(Error::usage_by)?;
        self.trial = Some(begun);
        Ok(())
    }

    // By what the description says of the ways between caches, there and back.
    fn probe(&mut self, cpus: &[CpuId]) -> Result<Option<f64>, Error> {
        self.elapsed += self.plan.experiment.measure.probe.0;
        let Some((&home, others)) = cpus.split_first() else { return Ok(None) };
        let place = |cpu: CpuId| self.host.as_ref().map_or(cpu, |host| host.place(cpu));
        let trip = |other: &CpuId| self.description.round_trip_ns(place(home), place(*other));
        Ok(others.iter().map(trip).reduce(f64::max))
    }

    // Masks hold at once, and evict nothing by themselves. Regions are locked anew: a window before
    // may have flushed them.
    fn arrange(&mut self, case: usize) -> Result<(), Error> {
        let Some(partitions) = &self.partitions else { return Ok(()) };
        let Some(trial) = &mut self.trial else {
            return Err(Error::failed("no trial has begun"));
        };
        let name = &self.plan.cases[case].arm;
        let arm =
            self.plan.experiment.arms.iter().position(|arm| arm.name == *name).unwrap_or_default();
        let failed = |error: crate::hardware::SetupError| Error::failed(error.to_string());
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
            partitions.lock((device, llc), &mut trial.run, of_reader).map_err(failed)?;
        }
        Ok(())
    }

    fn window(&mut self, active: &[Active]) -> Result<Vec<Measured>, Error> {
        self.count_window();
        let measure = &self.plan.experiment.measure;
        let (settle, window) = (measure.settle.0 / SHARE, measure.window.0 / SHARE);
        let window = window.clamp(SHORTEST.min(measure.window.0), LONGEST);
        let counted = |active: &Active| {
            self.plan.variants[active.role][active.variant].task.counts_latencies()
        };
        let latencies = active.iter().any(counted);
        let Some(trial) = &mut self.trial else {
            return Err(Error::failed("no trial has begun"));
        };
        if let Some(host) = &mut self.host
            && host.advance(self.elapsed)
        {
            trial.reseat(host);
        }
        let rate = self.host.as_ref().map_or(1.0, |host| host.rate(self.elapsed));
        let running = trial.switch(active);
        let least =
            running.iter().map(|(seat, holder)| trial.seats[*seat].holders[*holder].least_window);
        let window = window.max(least.max().unwrap_or_default());
        if let Some(partitions) = &self.partitions {
            assign_classes(trial, partitions)?;
        }
        // A task that goes back is measured over the same stretch in every window of the trial.
        let metric = self.plan.metric;
        let back = running.iter().position(|(seat, holder)| {
            let holder = &trial.seats[*seat].holders[*holder];
            holder.role == metric && holder.goes_back
        });
        let known = back.and_then(|place| trial.stretch(running[place]));
        let origin = trial.points(&running, false);
        let adapts = match (back, known) {
            (Some(place), Some(stretch)) => {
                trial.reach(&running, place, origin[place].units + stretch.before, self.stop)?;
                false
            }
            _ => trial.settle(&running, settle, self.stop)?,
        };
        let window = if adapts { window.max(SWING) } else { window };
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
        let measured = running.iter().zip(begun.iter().zip(&ended)).map(|(who, (begun, ended))| {
            let seat = &trial.seats[who.0];
            let holder = &seat.holders[who.1];
            let (role, instance, cpu) = (holder.role, holder.instance, seat.cpu);
            let start_ns = ns(self.before + begun.at);
            Measured { role, instance, cpu, start_ns, ..measured(begun, ended, rate) }
        });
        Ok(measured.collect())
    }

    fn end(self: Box<Self>) -> Result<Vec<String>, Error> {
        Ok(Vec::new())
    }
}
