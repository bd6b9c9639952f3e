//! Which engine runs a plan: the one place where that is decided, and all that depends on it
//! beforehand.

use std::sync::atomic::AtomicBool;

use ringfence_analysis::estimate::FEWEST_TRIALS;
use ringfence_engine::Engine;
use ringfence_engine::host::HostEngine;
use ringfence_experiment::Error;
use ringfence_experiment::Measure;
use ringfence_experiment::plan::Plan;
use ringfence_experiment::scale::Scale;
use ringfence_experiment::units::Share;
use ringfence_machine::Machine;
use ringfence_machine::cpulist::CpuId;
use ringfence_simulator::{Description, SimulatedEngine, TrialsAtOnce};

use crate::recordings;

// What simulated trials scatter by is small: more of them than this say little new.
const MOST_TRIALS: u32 = 6;
const PRECISE: Share = Share(0.01);

/// The engine that runs a plan on a machine: that of this one, or the simulator of a described one.
///
/// # Errors
/// Where it cannot be had.
pub fn choose<'a>(
    plan: &'a Plan,
    machine: &Machine,
    stop: &'a AtomicBool,
) -> Result<Box<dyn Engine + 'a>, Error> {
    Ok(match described(machine)? {
        Some(description) => {
            let recordings = recordings::read(&plan.experiment)?;
            Box::new(SimulatedEngine::new(plan, &description, stop).playing(&recordings))
        }
        None => Box::new(HostEngine::new(plan, &machine.topology, stop)?),
    })
}

/// The same for a caller that runs the whole plan in its order: trials are simulated several at
/// once.
///
/// # Errors
/// As [`choose`].
pub fn choose_for_all<'a>(
    plan: &'a Plan,
    machine: &Machine,
    stop: &'a AtomicBool,
) -> Result<Box<dyn Engine + 'a>, Error> {
    let description = described(machine)?;
    // Noise continues from trial to trial.
    let Some(description) = description.filter(|description| description.noise.is_none()) else {
        return choose(plan, machine, stop);
    };
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let recordings = recordings::read(&plan.experiment)?;
    Ok(Box::new(TrialsAtOnce::new(plan, &description, stop, threads).playing(&recordings)))
}

/// The latencies that distinguish hits from misses: measured on a CPU, or as described.
pub fn scale(machine: &Machine, cpu: CpuId) -> Option<Scale> {
    match described(machine).ok()? {
        Some(description) => Some(description.scale()),
        None => ringfence_workloads::scale::measure(cpu),
    }
}

/// Shortens what is measured where it is simulated: nothing disturbs a simulated window, so that a
/// few trials, each with one round, show how much depends on where tasks begin. They end early once
/// all is known to a percent. Where noise is simulated as well, it takes as many as on a machine.
pub fn few_trials(measure: &mut Measure, machine: &Machine) {
    if described(machine).is_ok_and(|found| found.is_some_and(|it| it.noise.is_none())) {
        measure.looks = vec![FEWEST_TRIALS, MOST_TRIALS];
        measure.rounds = 1;
        measure.precision = Some(PRECISE);
        measure.time = None;
    }
}

// What a simulated machine is simulated by.
pub(crate) fn described(machine: &Machine) -> Result<Option<Description>, Error> {
    let Some(simulated) = &machine.simulated else { return Ok(None) };
    let description = Description::parse(&simulated.file);
    description.map(Some).map_err(|error| {
        Error::usage_by(error).within(&format!("the description of {}", simulated.name))
    })
}
