//! Sources of noise on this machine, with cause, consequence and remedy.
//!
//! Each theme is a file with one function over what the kernel tells; none measures anything.

mod clock;
mod counters;
mod dimms;
mod finding;
mod frequency;
#[cfg(test)]
mod hardware_tests;
mod idle;
pub mod latency;
mod left;
mod load;
mod memory;
mod pages;
mod pmdk;
mod resctrl;
mod restriction;
mod smt;
pub mod stat;
#[cfg(test)]
mod tests;
mod thermal;
mod virtualization;

use crate::clock::TscEvidence;
use crate::features::Identity;
use crate::root::FsRoot;
use crate::targets::Target;
use crate::topology::Topology;

pub(crate) use finding::View;
pub use finding::{Finding, Severity};
pub use smt::{busy_siblings, busy_siblings_finding};

/// Every source of noise on the machine below `root`, the worst first.
///
/// ```
/// use ringfence_machine::{doctor, root::FsRoot, targets, topology::Topology};
/// let root = FsRoot::host();
/// let topology = Topology::read(&root).unwrap();
/// let targets = targets::find(&root, &topology);
/// for finding in doctor::examine(&root, &topology, &targets) {
///     println!("{:?}: {} ({})", finding.severity, finding.title, finding.evidence);
/// }
/// ```
pub fn examine(root: &FsRoot, topology: &Topology, targets: &[Target]) -> Vec<Finding> {
    let view = View {
        root,
        topology,
        targets,
        identity: Identity::from_cpuinfo(root),
        tsc: TscEvidence::gather(root),
        counters: counters::ask(root),
    };
    let themes: [fn(&View) -> Vec<Finding>; 16] = [
        smt::find,
        frequency::find,
        thermal::find,
        idle::find,
        pages::find,
        virtualization::find,
        restriction::find,
        memory::find,
        dimms::find,
        pmdk::find,
        load::find,
        clock::find,
        counters::find,
        resctrl::find,
        left::find,
        topology_notes,
    ];
    let mut findings: Vec<Finding> = themes.iter().flat_map(|theme| theme(&view)).collect();
    findings.sort_by_key(|finding| finding.severity);
    findings
}

fn topology_notes(view: &View) -> Vec<Finding> {
    let notes = &view.topology.notes;
    let finding = Finding {
        id: "topology-incomplete".into(),
        severity: Severity::Warning,
        title: "The kernel hides part of the topology".into(),
        cause: "sysfs lacks files, as in some containers and virtual machines".into(),
        consequence: "placements that need the missing parts are listed as not run".into(),
        remedy: "run outside of the container, or name CPUs yourself".into(),
        evidence: notes.join("; "),
    };
    if notes.is_empty() { Vec::new() } else { vec![finding] }
}
