//! What spoils a measurement on this machine, with cause, consequence and remedy.
//!
//! Each theme is a file with one function over what the kernel tells; none measures anything.

mod clock;
mod counters;
mod dimms;
mod frequency;
#[cfg(test)]
mod hardware_tests;
mod idle;
pub mod latency;
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

use serde::{Deserialize, Serialize};

use crate::clock::TscEvidence;
use crate::counters::Unavailable;
use crate::features::Identity;
use crate::root::FsRoot;
use crate::targets::Target;
use crate::topology::Topology;

pub use smt::{busy_siblings, busy_siblings_finding};

/// How much a finding matters to measured figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Figures can be wrong, or experiments cannot run at all.
    Serious,
    /// Figures are noisier, or mean something else than one might think.
    Warning,
    /// Good to know when figures are compared with those of another machine.
    Info,
}

/// Something about this machine that a measurement must reckon with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// A stable name such as `cpu-boost`.
    pub id: String,
    /// How much it matters.
    pub severity: Severity,
    /// What it is, in a few words.
    pub title: String,
    /// Why it is so here.
    pub cause: String,
    /// What it does to measurements.
    pub consequence: String,
    /// What would help.
    pub remedy: String,
    /// The file and its text, or the values, that it was concluded from.
    pub evidence: String,
}

/// What the themes look at.
pub(crate) struct View<'a> {
    pub root: &'a FsRoot,
    pub topology: &'a Topology,
    pub targets: &'a [Target],
    pub identity: Identity,
    pub tsc: TscEvidence,
    pub counters: Result<(), Unavailable>,
}

/// Everything that spoils a measurement on the machine below `root`, the worst first.
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
    let themes: [fn(&View) -> Vec<Finding>; 15] = [
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
