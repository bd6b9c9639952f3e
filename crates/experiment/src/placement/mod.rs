//! Which task runs on which CPU: a pure function of the topology.
//!
//! The metric's role is placed first, each instance on a core whose siblings stay idle. The other roles
//! follow in the file's order, each where its kind of placement says, on the first CPUs of that place
//! which nobody has whom it runs beside. So roles that never run at once, because no arm has both, may
//! share CPUs: two variants of a co-runner then differ in nothing else. CPUs named in a file are taken as
//! they are, and what that means (one CPU for two, a sibling, another cache, another node) is said.
//!
//! The core of CPU 0, which also serves the kernel, is taken last, and its use is said. A role for which
//! there is no room gets fewer CPUs than it wants, never others: its cases are not run.

mod notes;
mod seats;

use ringfence_machine::cpulist::{CpuId, CpuSet};
use ringfence_machine::topology::Topology;
use serde::{Deserialize, Serialize};

use crate::PlacementKind;
use seats::Floor;

/// What a role asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Want {
    /// Its name, for notes.
    pub role: String,
    /// The most instances that any case runs at once.
    pub count: u32,
    /// CPUs named in the file, taken in order.
    pub cpus: Option<CpuSet>,
    /// How it lies to the metric's role, whose own kind means nothing.
    pub kind: PlacementKind,
}

impl Want {
    /// One instance, wherever there is room.
    pub fn one(role: &str) -> Self {
        Self { role: role.into(), count: 1, cpus: None, kind: PlacementKind::Auto }
    }
}

/// Where a role was placed, or would have been.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    /// It is the metric's role: on cores of its own.
    Home,
    /// On the CPUs that the file names.
    Named,
    /// On SMT siblings of the metric's cores.
    Smt,
    /// On other cores under the metric's last-level cache.
    Llc,
    /// On the metric's NUMA node, under another last-level cache.
    Node,
    /// On another NUMA node.
    Remote,
}

/// Where everybody runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placed {
    /// Per role, the CPUs of its instances; fewer than wanted where there is no room.
    pub cpus: Vec<Vec<CpuId>>,
    /// Per role, where that is; empty in datasets of earlier versions.
    #[serde(default)]
    pub places: Vec<Place>,
    /// What was decided, in sentences.
    pub notes: Vec<String>,
}

impl Placed {
    /// Why `count` instances of a role cannot run, if so, such that it follows "because".
    pub fn shortage(&self, wants: &[Want], metric: usize, role: usize, count: u32) -> Option<String> {
        let have = self.cpus[role].len();
        let place = self.places.get(role).copied()?;
        (have < count as usize).then(|| notes::shortage(wants, metric, role, place, count, have))
    }
}

/// Places roles; `metric` is the index of the role whose rate is the figure, `arms` has for each arm
/// the roles that run at once. Roles of the kind `auto` all get the first kind with room for them.
///
/// # Errors
/// One sentence where CPUs named in the file cannot be used.
pub fn place(
    topology: &Topology,
    wants: &[Want],
    metric: usize,
    arms: &[Vec<usize>],
) -> Result<Placed, String> {
    let meets = |a: usize, b: usize| a != b && arms.iter().any(|arm| arm.contains(&a) && arm.contains(&b));
    check_named(topology, wants)?;
    let floor = Floor::of(topology);
    let best = floor.seat(wants, metric, &meets);
    let mut placed = Placed { cpus: best.cpus, places: best.places, notes: Vec::new() };
    placed.notes = notes::notes(topology, wants, metric, &placed, &meets);
    Ok(placed)
}

fn check_named(topology: &Topology, wants: &[Want]) -> Result<(), String> {
    let usable = topology.usable();
    for cpus in wants.iter().filter_map(|want| want.cpus.as_ref()) {
        if let Some(bad) = cpus.iter().find(|cpu| !usable.contains(*cpu)) {
            return Err(format!(
                "cpus = \"{cpus}\": CPU {bad} is not among the CPUs that are online and allowed ({usable}): choose from these"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
