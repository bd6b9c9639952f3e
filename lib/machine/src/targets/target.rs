//! One target: memory that an experiment can name.

use serde::{Deserialize, Serialize};

use crate::units::Bytes;

/// What kind of memory a target is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum TargetKind {
    /// Anonymous memory.
    Dram,
    /// Files in memory.
    Tmpfs,
    /// A file system that maps persistent memory directly.
    Dax,
    /// A persistent-memory namespace that is neither mounted nor device DAX.
    Namespace,
    /// A character device that maps memory directly.
    Devdax,
    /// Memory of a NUMA node without CPUs.
    Node,
    /// A pool of huge pages.
    Hugepages,
}

/// Memory that an experiment can name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Target {
    /// What it is.
    pub kind: TargetKind,
    /// Its name in experiments, such as `dram`, `tmpfs:/dev/shm`, `dax:/mnt/pmem0`,
    /// `devdax:/dev/dax1.0` or `node:2`.
    pub name: String,
    /// All of it.
    pub size: Option<Bytes>,
    /// What was free.
    pub free: Option<Bytes>,
    /// Alignment that mappings need beyond the page.
    pub align: Option<Bytes>,
    /// NUMA node that the memory belongs to.
    pub node: Option<u32>,
    /// How far a store must get to survive power loss, in the kernel's words: `cpu_cache`
    /// (eADR), `memory_controller` (ADR); nothing where the kernel does not know.
    pub persistence_domain: Option<String>,
    /// Whether a device that maps memory directly is known to keep nothing without power, as HBM
    /// and volatile CXL memory.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub volatile: bool,
    /// Whether an experiment can write to it now.
    pub usable: bool,
    /// Why it is usable or is not, in a sentence.
    pub why: String,
}

impl Target {
    /// Whether it is persistent memory, as far as known, and can be written to now.
    pub fn is_persistent(&self) -> bool {
        matches!(self.kind, TargetKind::Dax | TargetKind::Devdax) && self.usable && !self.volatile
    }

    pub(crate) fn new(kind: TargetKind, name: impl Into<String>, why: impl Into<String>) -> Self {
        Self {
            kind,
            name: name.into(),
            size: None,
            free: None,
            align: None,
            node: None,
            persistence_domain: None,
            volatile: false,
            usable: true,
            why: why.into(),
        }
    }

    pub(crate) fn unusable(
        kind: TargetKind,
        name: impl Into<String>,
        why: impl Into<String>,
    ) -> Self {
        Self { usable: false, ..Self::new(kind, name, why) }
    }
}
