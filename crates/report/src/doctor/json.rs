//! Sources of noise, and memory targets, as JSON.

use ringfence_machine::Machine;
use ringfence_machine::doctor::Finding;
use ringfence_machine::targets::Target;
use serde::Serialize;

use crate::json::Document;

/// Sources of noise, and what can be written to.
pub fn doctor(machine: &Machine) -> impl Serialize {
    #[derive(Serialize)]
    struct Doctor<'a> {
        findings: &'a [Finding],
        targets: &'a [Target],
    }
    let body = Doctor { findings: &machine.findings, targets: &machine.targets };
    Document { schema: "ringfence/doctor/2", body }
}
