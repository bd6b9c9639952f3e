//! A worker: the process that runs one instance of a role, pinned, and reports through its slot.
//!
//! It holds every variant of its role ready, runs the one that is ordered, and sleeps on its bell
//! when paused. It dies with the guardian that started it.

use std::io::Read;
use std::os::fd::RawFd;

use ringfence_machine::clock::Clock;
use ringfence_machine::cpulist::{CpuId, CpuSet};
use ringfence_machine::probe::pin;
use serde::{Deserialize, Serialize};

use super::shm::{Report, Shared, Slot, order, state};
use crate::task::Task;
use crate::workload::command::Program;
use crate::workload::write::Regions;
use crate::workload::{self, Latencies, Workload};

/// What a worker is told at its start, as JSON on its standard input.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Spec {
    /// Its slot.
    pub slot: usize,
    /// Its CPU.
    pub cpu: CpuId,
    /// Seed of its memory layout.
    pub seed: u64,
    /// The variants of its role; `None` for those that this machine cannot run.
    pub tasks: Vec<Option<Task>>,
}

/// Why a worker failed, as JSON in its slot's message.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Failure {
    /// Whether what was asked for cannot be had on this machine as it is.
    pub usage: bool,
    /// One sentence.
    pub text: String,
}

// A report at about this interval: short against a window, long against the cost of a report.
const REPORT_NS: f64 = 20_000.0;

enum Runner {
    Steady(Box<dyn Workload>),
    Program(Program),
    Idle,
}

/// Runs a worker to its end, which is its death. `fd` is that of the shared memory.
pub fn main(fd: RawFd) -> ! {
    die_with_parent();
    let mut text = String::new();
    let read = std::io::stdin().read_to_string(&mut text);
    let spec: Option<Spec> = serde_json::from_str(&text).ok();
    if let (Ok(_), Some(spec), Ok(shared)) = (read, spec, Shared::inherit(fd)) {
        let slot = shared.slot(spec.slot);
        let failure = match prepare(&spec, slot) {
            Ok((runners, seat)) => serve(slot, runners, seat),
            Err(failure) => failure,
        };
        slot.fail(&serde_json::to_string(&failure).unwrap_or_default());
    }
    std::process::exit(1);
}

/// Asks the kernel to end this process with its parent, and ends it if the parent has gone already.
pub(super) fn die_with_parent() {
    // SAFETY: prctl and getppid with these arguments touch no memory.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        if libc::getppid() == 1 {
            libc::_exit(1);
        }
    }
}

/// Where it may run: on its CPU, or, for variants that are not pinned, wherever it was let at its start.
struct Seat {
    cpu: CpuId,
    anywhere: CpuSet,
    pinned: Vec<bool>,
    at_home: bool,
}

impl Seat {
    fn of(spec: &Spec) -> Self {
        let pinned = spec.tasks.iter().map(|task| task.as_ref().is_none_or(Task::pinned)).collect();
        // Without an answer nothing but its CPU is known to be allowed.
        let anywhere = pin::affinity().unwrap_or_else(|_| CpuSet::single(spec.cpu));
        Self { cpu: spec.cpu, anywhere, pinned, at_home: true }
    }

    fn take(&mut self, variant: usize) -> Result<(), pin::PinError> {
        let home = self.pinned[variant];
        if home != self.at_home {
            if home {
                pin::pin_current_thread(self.cpu)?
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
    pin::pin_current_thread(spec.cpu)
        .map_err(|error| Failure { usage: true, text: format!("CPU {}: {error}", spec.cpu) })?;
    Clock::host();
    let mut regions = Regions::default();
    let mut runners = Vec::new();
    for task in &spec.tasks {
        let Some(task) = task else {
            runners.push(None);
            continue;
        };
        let failed = |usage: bool, error: &dyn std::fmt::Display| Failure {
            usage,
            text: format!("workload {}: {error}", task.name()),
        };
        let runner = match task {
            Task::Command(command) => {
                let program =
                    Program::start(command, spec.cpu, slot).map_err(|error| failed(true, &error))?;
                Runner::Program(program)
            }
            Task::Idle(_) => Runner::Idle,
            other => match workload::build(other, spec.seed, &mut regions) {
                Ok(Some(workload)) => Runner::Steady(workload),
                Ok(None) => Runner::Idle,
                Err(error) => return Err(failed(error.is_usage(), &error)),
            },
        };
        runners.push(Some(runner));
    }
    Ok((runners, seat))
}

/// Units done so far and the number of the last report.
#[derive(Default)]
struct Tally {
    number: u64,
    report: Report,
}

impl Tally {
    #[inline(always)]
    fn publish(&mut self, slot: &Slot, clock: &Clock) {
        self.number += 1;
        self.report.ticks = clock.now();
        slot.publish(self.number, self.report);
    }
}

fn serve(slot: &Slot, mut runners: Vec<Option<Runner>>, mut seat: Seat) -> Failure {
    let clock = Clock::host();
    let mut tally = Tally::default();
    let mut amounts = vec![1u64; runners.len()];
    loop {
        let seen = slot.bell();
        let ordered = slot.order();
        if ordered == order::PAUSE {
            tally.publish(slot, clock);
            slot.set_state(state::PAUSED);
            slot.wait_bell(seen, None);
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
            Runner::Steady(workload) => {
                slot.set_settle_units(workload.settle_units());
                workload.resumed();
                tally.publish(slot, clock);
                slot.set_state(state::RUNNING + variant as u32);
                steady(slot, ordered, workload.as_mut(), &mut amounts[variant], &mut tally);
            }
            Runner::Program(program) => {
                slot.set_settle_units(0);
                program.resume();
                tally.report.units = program.units();
                tally.publish(slot, clock);
                slot.set_state(state::RUNNING + variant as u32);
                while slot.order() == ordered {
                    let seen = slot.bell();
                    if let Err(text) = program.keep_running() {
                        return Failure { usage: false, text };
                    }
                    slot.answer_if_asked(|| {
                        tally.report.units = program.units();
                        tally.publish(slot, clock);
                    });
                    slot.wait_bell(seen, None);
                }
                if let Err(text) = program.pause() {
                    return Failure { usage: false, text };
                }
            }
            Runner::Idle => {
                slot.set_settle_units(0);
                tally.publish(slot, clock);
                slot.set_state(state::RUNNING + variant as u32);
                while slot.order() == ordered {
                    let seen = slot.bell();
                    slot.answer_if_asked(|| tally.publish(slot, clock));
                    slot.wait_bell(seen, None);
                }
            }
        }
    }
}

struct Histogram<'a>(&'a Slot, &'a Clock);

impl Latencies for Histogram<'_> {
    fn count(&self, ticks: u64) {
        self.0.count_latency(self.1.ns(ticks) as u64);
    }
}

// The measured loop: work, report, look at the order. `amount` follows the speed of the work, so
// that reports come at a steady interval whatever the neighbour does.
fn steady(slot: &Slot, ordered: u32, workload: &mut dyn Workload, amount: &mut u64, tally: &mut Tally) {
    let clock = Clock::host();
    let target = (REPORT_NS / clock.ns_per_tick()) as u64;
    let latencies = Histogram(slot, clock);
    while slot.order() == ordered {
        let before = tally.report.ticks;
        let work = workload.work(*amount, &latencies);
        tally.report.units += work.units;
        tally.report.untimed += work.untimed;
        tally.publish(slot, clock);
        let took = tally.report.ticks - before;
        if took < target / 2 {
            *amount = (*amount * 2).min(1 << 20);
        } else if took > target * 2 && *amount > 1 {
            *amount /= 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_variants_that_are_not_pinned_leave_their_cpu() {
        let before = pin::affinity().unwrap();
        let task = |text: &str| {
            let table = text.parse().expect("a table");
            Some(crate::task::axes::expand(&table).expect("a task")[0].task.clone())
        };
        let cpu = before.first().expect("this thread runs somewhere");
        let free = task("workload = 'write'\npinned = false");
        let spec = Spec { slot: 0, cpu, seed: 0, tasks: vec![task("workload = 'write'"), free, None] };
        let mut seat = Seat::of(&spec);
        pin::pin_current_thread(cpu).unwrap();
        for (variant, expected) in [(0, CpuSet::single(cpu)), (1, before.clone()), (0, CpuSet::single(cpu))] {
            seat.take(variant).unwrap();
            assert_eq!(pin::affinity().unwrap(), expected, "variant {variant}");
        }
    }
}
