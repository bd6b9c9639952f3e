//! A worker: the process that runs one instance of a role, pinned, and reports through its slot.
//!
//! It holds every variant of its role ready, runs the one that is ordered, and sleeps on its bell
//! when paused. It dies with the guardian that started it.

use std::io::Read;
use std::os::fd::RawFd;

use ringfence_machine::clock::Clock;
use ringfence_machine::cpulist::CpuId;
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
            Ok(runners) => serve(slot, runners),
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

fn prepare(spec: &Spec, slot: &Slot) -> Result<Vec<Option<Runner>>, Failure> {
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
    Ok(runners)
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

fn serve(slot: &Slot, mut runners: Vec<Option<Runner>>) -> Failure {
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
