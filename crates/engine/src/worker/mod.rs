//! A worker: the process that runs one instance of a role, pinned, and reports through its slot.
//!
//! It holds every variant of its role ready, runs the one that is ordered, and sleeps on its bell
//! when paused. It dies with the guardian that started it, and what it started with it.

mod latencies;
mod orphan;
mod rest;
mod tally;

use std::io::Read;
use std::os::fd::RawFd;

use ringfence_experiment::Error;
use ringfence_experiment::task::{ProgramUnit, Task};
use ringfence_experiment::units::Share;
use ringfence_machine::clock::Clock;
use ringfence_machine::cpulist::CpuSet;
use ringfence_machine::probe::pin;
use ringfence_workloads::{Regions, Workload};
use serde::{Deserialize, Serialize};

use self::latencies::Counted;
use self::rest::{Turn, rest};
use self::tally::Tally;
use super::shm::{Report, Shared, Slot, order, state};
use crate::before_exec::run_in_time;
use crate::priority::First;
use crate::program::Program;
use crate::program::whole_run::WholeRun;
use ringfence_limits::cgroup::Group;

/// A worker's instructions at its start, as JSON on its standard input.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Spec {
    /// Its slot.
    pub slot: usize,
    /// Its CPUs: one, but for programs that may use several.
    pub home: CpuSet,
    /// Seed of its memory layout.
    pub seed: u64,
    /// The variants of its role; `None` for those that this machine cannot run.
    pub tasks: Vec<Option<Assigned>>,
    /// Whether a task stops at its limit, instead of failing.
    #[serde(default)]
    pub stops_at_limits: bool,
    /// The group in which its program runs, if it has a quota and a group could be made.
    pub cgroup: Option<Group>,
}

/// A task and how much CPU time it may use.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Assigned {
    /// The task.
    pub task: Task,
    /// The share of a CPU's time; absent: all of it.
    pub quota: Option<Share>,
}

/// Why a worker failed, as JSON in its slot's message.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Failure {
    /// Whether this machine in its current state cannot fulfil the request.
    pub usage: bool,
    /// One sentence.
    pub text: String,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self { usage: error.is_usage(), text: error.to_string() }
    }
}

/// How long a unit of a variant took right after its start, with all other tasks paused; a list of
/// them is the slot's message when the worker is ready.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Alone {
    /// The variant.
    pub variant: usize,
    /// ns per unit.
    pub ns: f64,
}

// A report at about this interval: short against a window, long against the cost of a report.
const REPORT_NS: f64 = 20_000.0;

enum Runner {
    Steady(Box<dyn Workload>, Option<Share>),
    Program(Program),
    WholeRun(WholeRun),
    Idle,
}

/// Runs a worker to its end, which is its death. `fd` is that of the shared memory.
pub fn main(fd: RawFd) -> ! {
    orphan::die_with_parent();
    let mut text = String::new();
    let read = std::io::stdin().read_to_string(&mut text);
    let spec: Option<Spec> = serde_json::from_str(&text).ok();
    if let (Ok(_), Some(spec), Ok(shared)) = (read, spec, Shared::inherit(fd)) {
        let slot = shared.slot(spec.slot);
        let starts = |assigned: &Assigned| match &assigned.task {
            Task::Command(_) => true,
            task => task.asks_a_service(),
        };
        if spec.tasks.iter().flatten().any(starts) {
            orphan::end_all_with_parent();
        }
        // A probe must ask in time, whatever else wants the CPU.
        let asks = |assigned: &Assigned| assigned.task.asks_a_service();
        let asks = spec.tasks.iter().flatten().any(asks);
        // A high priority alone does not take the CPU from a process that has just got it.
        let _first = (asks && !run_in_time()).then(First::now);
        let failure = match prepare(&spec, slot) {
            Ok((runners, seat)) => serve(slot, runners, seat),
            Err(failure) => failure,
        };
        orphan::wait_if_orphaned();
        slot.fail(&serde_json::to_string(&failure).unwrap_or_default());
    }
    std::process::exit(1);
}

/// Where it may run: on its CPU, or, for variants that are not pinned, wherever it was let at its
/// start.
struct Seat {
    home: CpuSet,
    anywhere: CpuSet,
    pinned: Vec<bool>,
    at_home: bool,
}

impl Seat {
    fn of(spec: &Spec) -> Self {
        let pinned = spec
            .tasks
            .iter()
            .map(|task| task.as_ref().is_none_or(|assigned| assigned.task.pinned()))
            .collect();
        // Without an answer nothing but its CPU is known to be allowed.
        let anywhere = pin::affinity().unwrap_or_else(|_| spec.home.clone());
        Self { home: spec.home.clone(), anywhere, pinned, at_home: true }
    }

    fn take(&mut self, variant: usize) -> Result<(), pin::PinError> {
        let home = self.pinned[variant];
        if home != self.at_home {
            if home {
                pin::set_affinity(&self.home)?
            } else {
                pin::set_affinity(&self.anywhere)?
            }
            self.at_home = home;
        }
        Ok(())
    }
}

fn prepare(spec: &Spec, slot: &Slot) -> Result<(Vec<Option<Runner>>, Seat), Failure> {
    let seat = Seat::of(spec);
    pin::set_affinity(&spec.home)
        .map_err(|error| Failure { usage: true, text: format!("CPU {}: {error}", spec.home) })?;
    Clock::host();
    let mut regions = Regions::default();
    let mut runners = Vec::new();
    for assigned in &spec.tasks {
        let Some(Assigned { task, quota }) = assigned else {
            runners.push(None);
            continue;
        };
        let failed = |usage: bool, error: &dyn std::fmt::Display| Failure {
            usage,
            // What was asked for is refused in its own words; what fails needs to be found.
            text: if usage {
                error.to_string()
            } else {
                format!("workload {}: {error}", task.name())
            },
        };
        let runner = match task {
            Task::Command(command) if command.unit == ProgramUnit::WholeRun => {
                Runner::WholeRun(WholeRun::new(command, &spec.home, slot)?)
            }
            Task::Command(command) => Runner::Program(Program::start(
                command,
                *quota,
                spec.cgroup.as_ref(),
                &spec.home,
                slot,
            )?),
            Task::Idle(_) => Runner::Idle,
            other => match ringfence_workloads::build(other, spec.seed, &mut regions) {
                Ok(Some(mut workload)) => {
                    if spec.stops_at_limits {
                        workload.stop_at_limit();
                    }
                    Runner::Steady(workload, *quota)
                }
                Ok(None) => Runner::Idle,
                Err(error) => return Err(failed(error.is_usage(), &error)),
            },
        };
        runners.push(Some(runner));
    }
    say_alone(&mut runners, slot);
    Ok((runners, seat))
}

fn say_alone(runners: &mut [Option<Runner>], slot: &Slot) {
    let mut alone = Vec::new();
    for (variant, runner) in runners.iter_mut().enumerate() {
        if let Some(Runner::Steady(workload, _)) = runner
            && let Some(ns) = workload.alone_ns()
        {
            alone.push(Alone { variant, ns });
        }
    }
    if !alone.is_empty() {
        slot.say(&serde_json::to_string(&alone).unwrap_or_default());
    }
}

fn serve(slot: &Slot, mut runners: Vec<Option<Runner>>, mut seat: Seat) -> Failure {
    let clock = Clock::host();
    let mut tally = Tally::default();
    let mut amounts = vec![1u64; runners.len()];
    let counted = Counted::new(clock);
    loop {
        let seen = slot.bell();
        let ordered = slot.order();
        if ordered == order::PAUSE {
            tally.publish(slot, clock);
            slot.set_state(state::PAUSED);
            slot.wait_bell(seen, None);
            continue;
        }
        if ordered == order::HOLD {
            hold(slot, &mut tally);
            continue;
        }
        let variant = (ordered - order::RUN) as usize;
        let Some(Some(runner)) = runners.get_mut(variant) else {
            return Failure { usage: false, text: format!("there is no variant {variant} to run") };
        };
        if let Err(error) = seat.take(variant) {
            return Failure { usage: false, text: error.to_string() };
        }
        // A report of the present, so that no window begins with one from before the pause.
        match runner {
            Runner::Steady(workload, quota) => {
                slot.set_settle_units(workload.settle_units());
                workload.resumed();
                slot.set_spent(false);
                tally.publish(slot, clock);
                slot.set_state(state::RUNNING + variant as u32);
                let amount = &mut amounts[variant];
                let workload = workload.as_mut();
                if let Err(text) =
                    steady(slot, ordered, workload, *quota, amount, &mut tally, &counted)
                        .and_then(|()| pause(slot, workload, &mut tally))
                {
                    return Failure { usage: false, text };
                }
            }
            Runner::WholeRun(program) => {
                slot.set_settle_units(0);
                tally.report = Report::default();
                tally.publish(slot, clock);
                slot.set_state(state::RUNNING + variant as u32);
                if let Err(error) = whole_run(slot, ordered, program, &mut tally) {
                    return error.into();
                }
            }
            Runner::Program(program) => {
                slot.set_settle_units(0);
                program.resume();
                tally.report.units = program.units();
                tally.publish(slot, clock);
                slot.set_state(state::RUNNING + variant as u32);
                if let Err(error) = let_run(slot, ordered, program, &mut tally) {
                    return error.into();
                }
            }
            Runner::Idle => {
                slot.set_settle_units(0);
                tally.publish(slot, clock);
                slot.set_state(state::RUNNING + variant as u32);
                idle(slot, ordered, &mut tally);
            }
        }
    }
}

// Ends a steady task's turn, with what it says of it.
fn pause(slot: &Slot, workload: &mut dyn Workload, tally: &mut Tally) -> Result<(), String> {
    if slot.order() == order::HOLD {
        hold(slot, tally);
    }
    // Before it says that it has paused: what it leaves under way would be in the next window.
    workload.paused();
    if let Some(text) = workload.failure() {
        return Err(text.into());
    }
    if let Some(told) = workload.told() {
        slot.say(&told);
    }
    Ok(())
}

// Runs a program until another order arrives, and pauses it then.
fn let_run(
    slot: &Slot,
    ordered: u32,
    program: &mut Program,
    tally: &mut Tally,
) -> Result<(), Error> {
    while slot.order() == ordered {
        let seen = slot.bell();
        program.keep_running()?;
        slot.answer_if_asked(|| report_program(program, slot, tally));
        slot.wait_bell(seen, None);
    }
    program.pause()
}

// Nothing until another order.
fn idle(slot: &Slot, ordered: u32, tally: &mut Tally) {
    while slot.order() == ordered {
        let seen = slot.bell();
        slot.answer_if_asked(|| tally.publish(slot, Clock::host()));
        slot.wait_bell(seen, None);
    }
}

fn report_program(program: &mut Program, slot: &Slot, tally: &mut Tally) {
    let latencies = program.latencies();
    tally.report.units = latencies.as_ref().map_or_else(|| program.units(), |seen| seen.units);
    tally.publish(slot, Clock::host());
    if let Some(seen) = latencies {
        slot.mark(tally.report, seen.counts.iter().copied(), seen.sum_ns);
    }
}

// Stands still until another order, with what it has left under way.
fn hold(slot: &Slot, tally: &mut Tally) {
    tally.publish(slot, Clock::host());
    slot.set_state(state::HELD);
    loop {
        let seen = slot.bell();
        if slot.order() != order::HOLD {
            return;
        }
        slot.wait_bell(seen, None);
    }
}

// One run, reported at its end with its start in the place of untimed ticks; then nothing until the
// next order.
fn whole_run(
    slot: &Slot,
    ordered: u32,
    program: &mut WholeRun,
    tally: &mut Tally,
) -> Result<(), Error> {
    let started = Clock::host().now();
    program.start()?;
    while slot.order() == ordered {
        let seen = slot.bell();
        if let Some(ended) = program.end_of_run()? {
            let units = ended.counted.map_or(1, |counted| counted.units);
            tally.report = Report { units, untimed: started, ..Report::default() };
            if let Some(counted) = ended.counted {
                slot.mark(tally.report, [], counted.ns);
            }
            tally.publish_at(slot, ended.ticks);
        }
        slot.wait_bell(seen, None);
    }
    program.end();
    Ok(())
}

// The measured loop: work, report, look at the order. `amount` follows the speed of the work, so
// that reports come at a steady interval whatever the neighbour does.
fn steady(
    slot: &Slot,
    ordered: u32,
    workload: &mut dyn Workload,
    quota: Option<Share>,
    amount: &mut u64,
    tally: &mut Tally,
    counted: &Counted,
) -> Result<(), String> {
    let clock = Clock::host();
    let target = (REPORT_NS / clock.ns_per_tick()) as u64;
    let mut asked = false;
    let mut turn = quota.filter(|quota| quota.0 < 1.0).map(|quota| Turn::new(quota, clock));
    while slot.order() == ordered {
        let spent = workload.spent();
        if spent {
            slot.set_spent(true);
        }
        if let Some(until) = workload.rest_until().or(spent.then_some(u64::MAX)) {
            rest(slot, ordered, until, clock, tally, counted);
            if slot.order() != ordered {
                break;
            }
        }
        let before = tally.report.ticks;
        let work = workload.work(*amount, counted);
        if let Some(text) = workload.failure() {
            return Err(text.into());
        }
        tally.report.units += work.units;
        tally.report.untimed += work.untimed;
        tally.publish(slot, clock);
        if slot.is_asked() {
            if !std::mem::replace(&mut asked, true) {
                workload.cut(tally.report.ticks);
            }
            if workload.is_cut() {
                counted.answer(slot, tally);
                asked = false;
            }
        }
        let took = tally.report.ticks - before;
        if took < target / 2 {
            *amount = (*amount * 2).min(1 << 20);
        } else if took > target * 2 && *amount > 1 {
            *amount /= 2;
        }
        if let Some(turn) = &mut turn
            && turn.is_over(tally.report.ticks)
        {
            turn.rest(slot, ordered, clock, tally, counted);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
