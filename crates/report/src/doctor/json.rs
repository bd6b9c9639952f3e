//! Sources of noise, and memory targets, as JSON.

use ringfence_machine::Machine;
use ringfence_machine::doctor::Finding;
use ringfence_machine::targets::Target;
use serde::Serialize;

/// `doctor`.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "schema", rename = "ringfence/doctor/2")]
pub(crate) struct Doctor<'a> {
    /// Sources of noise, the worst first.
    findings: &'a [Finding],
    /// Memory and files to write to.
    targets: &'a [Target],
}

/// Sources of noise, and what can be written to.
pub fn doctor(machine: &Machine) -> impl Serialize {
    Doctor { findings: &machine.findings, targets: &machine.targets }
}
