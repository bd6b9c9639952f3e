//! A finding, and what the themes look at to come to one.

use serde::{Deserialize, Serialize};

use crate::clock::TscEvidence;
use crate::counters::Unavailable;
use crate::features::Identity;
use crate::root::FsRoot;
use crate::targets::Target;
use crate::topology::Topology;

/// How much a finding matters to measured figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "DoctorFinding"))]
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

impl Finding {
    /// Whether it matters only to programs that use persistent memory.
    pub fn is_of_persistent_memory(&self) -> bool {
        matches!(&*self.id, "no-persistent-memory" | "thp") || self.id.starts_with("pmdk-")
    }
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
