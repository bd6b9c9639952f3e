//! Sources of noise on this machine, with cause, consequence and remedy.
//!
//! Each topic is a file with one function over the kernel's reports; none measures anything.

mod clock;
mod counters;
mod dimms;
mod finding;
mod frequency;
#[cfg(test)]
mod hardware_tests;
mod idle;
pub mod latency;
mod leftovers;
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
pub use ringfence_system::attach::{Busiest, Busy, Processes};
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
    // What x86-64 processors alone have, and what helps there.
    let of_x86: [fn(&View) -> Vec<Finding>; 6] = [
        virtualization::find,
        memory::persistent,
        pmdk::find,
        clock::find,
        counters::find,
        resctrl::find,
    ];
    let themes: [fn(&View) -> Vec<Finding>; 12] = [
        smt::find,
        frequency::find,
        thermal::find,
        idle::find,
        pages::find,
        restriction::find,
        memory::find,
        dimms::find,
        load::find,
        leftovers::find,
        topology_notes,
        contradictions,
    ];
    let mut findings: Vec<Finding> = themes.iter().flat_map(|theme| theme(&view)).collect();
    match root.other_processor() {
        Some(name) => findings.push(other_processor(name)),
        None => findings.extend(of_x86.iter().flat_map(|theme| theme(&view))),
    }
    findings.sort_by_key(|finding| finding.severity);
    findings
}

fn other_processor(name: &str) -> Finding {
    Finding {
        id: "not-x86-64".into(),
        severity: Severity::Serious,
        title: "This is not an x86-64 machine".into(),
        cause: format!("its processor is different: {name}"),
        consequence:
            "nothing can be measured on it; its clock, counters, cache allocation, persistent \
             memory and hypervisor are not examined"
                .into(),
        remedy: "measure on an x86-64 machine".into(),
        evidence: "/proc/cpuinfo".into(),
    }
}

fn topology_notes(view: &View) -> Vec<Finding> {
    let notes = &view.topology.notes;
    let (title, cause, remedy) = match view.root.is_host() {
        true => (
            "The kernel hides part of the topology",
            "sysfs lacks files, as in some containers and virtual machines",
            "run outside of the container, or name CPUs yourself",
        ),
        // A copy does not tell the two apart.
        false => (
            "Part of the topology is not known",
            "these files do not show it: they were not copied, or the kernel hid them",
            "copy all of /sys/devices/system, outside of any container",
        ),
    };
    let finding = Finding {
        id: "topology-incomplete".into(),
        severity: Severity::Warning,
        title: title.into(),
        cause: cause.into(),
        consequence: "placements that need the missing parts are listed as not run".into(),
        remedy: remedy.into(),
        evidence: notes.join("; "),
    };
    if notes.is_empty() { Vec::new() } else { vec![finding] }
}

/// How many contradictions are quoted.
const QUOTED: usize = 5;

fn contradictions(view: &View) -> Vec<Finding> {
    let all = &view.topology.contradictions;
    if all.is_empty() {
        return Vec::new();
    }
    let mut evidence: Vec<String> = all.iter().take(QUOTED).map(|one| one.text.clone()).collect();
    if all.len() > QUOTED {
        evidence.push(format!("{} more", all.len() - QUOTED));
    }
    let (cause, remedy) = match view.root.is_host() {
        true => (
            "firmware or the hypervisor describes the CPUs this way",
            "compare with the round trips that `ringfence survey` measures, and name CPUs yourself",
        ),
        false => (
            "the files contradict each other: firmware or a hypervisor wrote them this way, or \
             they were copied at different moments",
            "copy all of /sys/devices/system again, and compare with the machine's manual",
        ),
    };
    vec![Finding {
        id: "topology-contradictory".into(),
        severity: Severity::Warning,
        title: "The map of CPUs contradicts itself".into(),
        cause: cause.into(),
        consequence:
            "siblings, shared caches or NUMA nodes may not be what they are called; placements \
             that rely \
                      on them are marked"
                .into(),
        remedy: remedy.into(),
        evidence: evidence.join("; "),
    }]
}
