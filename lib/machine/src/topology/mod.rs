//! CPUs, cores, caches and memory nodes, and what they share.
//!
//! [`Topology::read`] reads it from sysfs as the kernel reports it; every other query is a function
//! of this value. The kernel's report can be wrong in a virtual machine: see [`crate::probe`] for
//! what can be measured instead.
//!
//! Pieces that are missing (no `cache` folder, no NUMA nodes, no `core_id`, as in some
//! containers and virtual machines) leave a `None` or an empty list, and a line in
//! [`Topology::notes`].

mod cache;
mod consistency;
mod contradiction;
mod cpu;
mod kind;
mod node;
mod pairs;
mod parts;
mod query;
mod summary;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use crate::cpulist::CpuSet;
use crate::root::{FsRoot, RootError};

pub use cache::{Cache, CacheKind};
pub use contradiction::{Contradiction, Relation};
pub use node::Node;
pub use parts::{Core, CoreKind, Cpu, Die, Package};

/// This computer's processors, caches and memory nodes as the kernel reports them.
#[doc(alias = "hwloc_topology_t")]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Topology {
    /// CPUs for which the machine has sockets or slots.
    pub possible: CpuSet,
    /// CPUs that are there.
    pub present: CpuSet,
    /// CPUs that run.
    pub online: CpuSet,
    /// Present CPUs that are switched off.
    pub offline: CpuSet,
    /// CPUs that this process may run on (affinity and cgroup cpuset); may name CPUs that do
    /// not exist. [`Topology::usable`] is what can be used.
    pub allowed: CpuSet,
    /// Sockets, ascending.
    pub packages: Vec<Package>,
    /// Dies, if the kernel reports any; ascending by package and die.
    pub dies: Vec<Die>,
    /// Physical cores, ordered by their lowest CPU.
    pub cores: Vec<Core>,
    /// Every present CPU, ascending.
    pub cpus: Vec<Cpu>,
    /// Every cache, once, by level, kind and lowest CPU.
    pub caches: Vec<Cache>,
    /// NUMA nodes, ascending.
    pub nodes: Vec<Node>,
    /// Whether `numa=fake=` on the kernel's command line made the nodes up.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fake_nodes: bool,
    /// What could not be learnt, in sentences.
    pub notes: Vec<String>,
    /// Statements of the kernel about CPUs that cannot all be true. Datasets of earlier versions
    /// have none.
    #[serde(default)]
    pub contradictions: Vec<Contradiction>,
}

impl Topology {
    /// Reads the topology below `root`.
    ///
    /// Fails only where not even the list of online CPUs can be had; everything else that is
    /// missing is noted in [`Topology::notes`].
    #[doc(alias = "hwloc_topology_load")]
    pub fn read(root: &FsRoot) -> Result<Self, RootError> {
        let (mut notes, mut contradictions) = (Vec::new(), Vec::new());
        let lists = cpu::Lists::read(root, &mut notes, &mut contradictions)?;
        let nodes =
            node::read(root, &lists.present, &lists.online, &mut notes, &mut contradictions);
        let fake_nodes = node::fake(root, &mut notes);
        let (mut cpus, mut cores) =
            cpu::read(root, &lists, &nodes, &mut notes, &mut contradictions);
        let packages = cpu::group_packages(&cpus);
        let dies = cpu::group_dies(&cpus);
        let caches = cache::read(root, &lists.online, &mut notes, &mut contradictions);
        kind::assign(root, &mut cores, &mut cpus, &caches, &mut contradictions);
        contradictions.extend(consistency::of_cores(&cores, &cpus, fake_nodes));
        // What firmware calls a package on other processors can be a core or a cluster.
        if root.other_processor().is_none() {
            contradictions.extend(consistency::of_caches(&caches, &cpus));
        }
        contradictions.extend(consistency::of_nodes(&nodes, fake_nodes));
        contradictions.extend(consistency::of_dies(root, &dies, &lists.online));
        contradictions.extend(consistency::of_packages(root, &packages, &lists.online));
        Ok(Self {
            offline: lists.present.difference(&lists.online),
            possible: lists.possible,
            present: lists.present,
            online: lists.online,
            allowed: lists.allowed,
            packages,
            dies,
            cores,
            cpus,
            caches,
            nodes,
            fake_nodes,
            notes,
            contradictions,
        })
    }
}
