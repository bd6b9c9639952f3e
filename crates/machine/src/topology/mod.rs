//! Which CPUs, cores, caches and memory nodes there are, and who shares what.
//!
//! [`Topology::read`] takes it from sysfs as the kernel tells it; every question after that is a
//! function of the value. What the kernel tells of a virtual machine can be untrue: see
//! [`crate::probe`] for what can be measured instead.
//!
//! Pieces that are missing (no `cache` folder, no NUMA nodes, no `core_id`, as in some
//! containers and virtual machines) leave a `None` or an empty list, and a line in
//! [`Topology::notes`].

mod cache;
mod cpu;
mod node;
mod pairs;
mod query;
mod summary;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use crate::cpulist::{CpuId, CpuSet};
use crate::root::{FsRoot, RootError};

pub use cache::{Cache, CacheKind};
pub use node::Node;

/// What the kernel tells of this computer's processors, caches and memory nodes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
    /// Dies, where the kernel tells of any; ascending by package and die.
    pub dies: Vec<Die>,
    /// Physical cores, ordered by their lowest CPU.
    pub cores: Vec<Core>,
    /// Every present CPU, ascending.
    pub cpus: Vec<Cpu>,
    /// Every cache, once, by level, kind and lowest CPU.
    pub caches: Vec<Cache>,
    /// NUMA nodes, ascending.
    pub nodes: Vec<Node>,
    /// What could not be learnt, in sentences.
    pub notes: Vec<String>,
}

/// A socket.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Package {
    /// The kernel's `physical_package_id`.
    pub id: u32,
    /// Its online CPUs.
    pub cpus: CpuSet,
}

/// A die within a package.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Die {
    /// The kernel's `die_id`, unique within its package only.
    pub id: u32,
    /// The package it belongs to.
    pub package: Option<u32>,
    /// Its online CPUs.
    pub cpus: CpuSet,
}

/// A physical core.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Core {
    /// The kernel's `core_id`: unique within a package (and die) only, with gaps.
    pub core_id: Option<u32>,
    /// The package it belongs to.
    pub package: Option<u32>,
    /// Performance or efficiency, on hybrid processors.
    pub kind: Option<CoreKind>,
    /// Its online CPUs (hardware threads).
    pub cpus: CpuSet,
}

/// The two kinds of cores of a hybrid processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CoreKind {
    /// A P-core (`/sys/devices/cpu_core`).
    Performance,
    /// An E-core (`/sys/devices/cpu_atom`).
    Efficiency,
}

/// A CPU as the kernel counts them: a hardware thread.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cpu {
    /// Its number.
    pub id: CpuId,
    /// Whether it runs. The kernel tells nothing else of a CPU that does not.
    pub online: bool,
    /// `physical_package_id`.
    pub package: Option<u32>,
    /// `die_id`.
    pub die: Option<u32>,
    /// Index into [`Topology::cores`].
    pub core: Option<usize>,
    /// NUMA node.
    pub node: Option<u32>,
    /// The other hardware threads of its core.
    pub siblings: CpuSet,
    /// Performance or efficiency, on hybrid processors.
    pub kind: Option<CoreKind>,
    /// `cpuinfo_max_freq`: kHz, boost included.
    pub max_khz: Option<u64>,
}

impl Topology {
    /// Reads the topology below `root`.
    ///
    /// Fails only where not even the list of online CPUs can be had; everything else that is
    /// missing is noted in [`Topology::notes`].
    pub fn read(root: &FsRoot) -> Result<Self, RootError> {
        let mut notes = Vec::new();
        let lists = cpu::Lists::read(root, &mut notes)?;
        let nodes = node::read(root, &mut notes);
        let (cpus, cores) = cpu::read(root, &lists, &nodes, &mut notes);
        let packages = cpu::group_packages(&cpus);
        let dies = cpu::group_dies(&cpus);
        let caches = cache::read(root, &lists.online, &mut notes);
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
            notes,
        })
    }
}
