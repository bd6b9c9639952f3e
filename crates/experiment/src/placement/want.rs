//! What roles ask for, and what they got.

use ringfence_machine::cpulist::{CpuId, CpuSet};
use serde::{Deserialize, Serialize};

use crate::PlacementKind;

/// What a role asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Want {
    /// Its name, for notes.
    pub role: String,
    /// The most instances that any case runs at once.
    pub count: u32,
    /// CPUs named in the file, taken in order.
    pub cpus: Option<CpuSet>,
    /// CPUs that it uses in addition, and on which no other role is placed.
    pub besides: CpuSet,
    /// Whether it waits for a device most of the time, so that several instances can run on one
    /// CPU.
    pub waits: bool,
    /// Where it runs relative to the metric's role, whose own kind means nothing.
    pub kind: PlacementKind,
}

impl Want {
    /// One instance, wherever there is room.
    pub fn one(role: &str) -> Self {
        Self {
            role: role.into(),
            count: 1,
            cpus: None,
            besides: CpuSet::new(),
            waits: false,
            kind: PlacementKind::Auto,
        }
    }
}

/// Where a role was placed, or would have been.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    /// On another NUMA node: of another package, if there is one.
    Remote,
}

/// Where each role runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Placed {
    /// Per role, the CPUs of its instances; fewer than wanted where there is no room.
    pub cpus: Vec<Vec<CpuId>>,
    /// Per role, where that is; empty in datasets of earlier versions.
    #[serde(default)]
    pub places: Vec<Place>,
    /// What was decided, in sentences: datasets store them as text.
    pub notes: Vec<String>,
}
