//! Which engine runs a plan: the one place where that is decided.

use std::sync::atomic::AtomicBool;

use ringfence_engine::host::HostEngine;
use ringfence_engine::{Engine, EngineError};
use ringfence_experiment::plan::Plan;
use ringfence_machine::Machine;

/// The engine that runs a plan on a machine: that of this one.
///
/// # Errors
/// Where it cannot be had.
pub fn choose<'a>(
    plan: &Plan,
    machine: &Machine,
    stop: &'a AtomicBool,
) -> Result<Box<dyn Engine + 'a>, EngineError> {
    Ok(Box::new(HostEngine::new(plan, &machine.topology, stop)?))
}
