//! Sockets, dies, cores and CPUs, as the kernel numbers them.

use serde::{Deserialize, Serialize};

use crate::cpulist::{CpuId, CpuSet};

/// A socket.
#[doc(alias("HWLOC_OBJ_PACKAGE", "socket"))]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Package {
    /// The kernel's `physical_package_id`; where it is -1, the package's lowest CPU.
    pub id: u32,
    /// Its online CPUs.
    pub cpus: CpuSet,
}

/// A die within a package.
#[doc(alias = "HWLOC_OBJ_DIE")]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Die {
    /// The kernel's `die_id`, unique within its package only.
    pub id: u32,
    /// The package it belongs to.
    pub package: Option<u32>,
    /// Its online CPUs.
    pub cpus: CpuSet,
}

/// A physical core.
#[doc(alias = "HWLOC_OBJ_CORE")]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Core {
    /// The kernel's `core_id`: unique within a package (and die) only, with gaps.
    pub core_id: Option<u32>,
    /// The package it belongs to.
    pub package: Option<u32>,
    /// Its kind, on hybrid processors.
    pub kind: Option<CoreKind>,
    /// Its online CPUs (hardware threads).
    pub cpus: CpuSet,
}

/// The kinds of cores of a hybrid processor, the fastest first.
#[doc(alias = "hwloc_cpukinds_get_info")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum CoreKind {
    /// A P-core (`/sys/devices/cpu_core`).
    Performance,
    /// An E-core (`/sys/devices/cpu_atom`).
    Efficiency,
    /// A low-power E-core (`/sys/devices/cpu_lowpower`).
    LowPower,
}

impl CoreKind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Performance, Self::Efficiency, Self::LowPower];

    /// `P-core`, `E-core`, `LP-E-core`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Performance => "P-core",
            Self::Efficiency => "E-core",
            Self::LowPower => "LP-E-core",
        }
    }
}

/// A CPU as the kernel counts them: a hardware thread.
#[doc(alias = "HWLOC_OBJ_PU")]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cpu {
    /// Its number.
    pub id: CpuId,
    /// Whether it is online. The kernel reports nothing else about an offline CPU.
    pub online: bool,
    /// Its package, as in [`Package::id`].
    pub package: Option<u32>,
    /// `die_id`.
    pub die: Option<u32>,
    /// Index into [`super::Topology::cores`].
    pub core: Option<usize>,
    /// NUMA node.
    pub node: Option<u32>,
    /// The other hardware threads of its core.
    pub siblings: CpuSet,
    /// Its kind, on hybrid processors.
    pub kind: Option<CoreKind>,
    /// `cpuinfo_max_freq`: kHz, boost included.
    pub max_khz: Option<u64>,
}
