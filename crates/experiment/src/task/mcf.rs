//! The parameters of a network simplex.

use ringfence_machine::units::Bytes;
use serde::{Deserialize, Serialize};

use super::axes::axes;
use super::parameters::{Parameters, at_least};
use crate::Reason;

/// A network simplex on timetabling instances, solved in turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Mcf {
    /// Approximate bytes of nodes and arcs, all instances together; they are sized to it.
    pub footprint: Bytes,
    /// How many instances; absent: one per 256 KiB. The rate swings tenfold over one solution, and
    /// the more solutions are under way, each at another point, the steadier their sum is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instances: Option<u32>,
    /// Seed of the instances.
    pub seed: u64,
}

impl Default for Mcf {
    fn default() -> Self {
        Self { footprint: Bytes::mib(8), instances: None, seed: 1 }
    }
}

impl Mcf {
    /// How many instances it comes to.
    pub fn instance_count(&self) -> u32 {
        let auto = (self.footprint.0 / Bytes::kib(256).0).clamp(1, 4096) as u32;
        self.instances.unwrap_or(auto)
    }
}

axes!(Mcf: Mcfs, "mcf" { footprint: Bytes, instances: Option<u32>, seed: u64 });

impl Parameters for Mcf {
    fn unit(&self) -> &'static str {
        "arcs priced"
    }

    fn check(&self) -> Result<(), String> {
        if self.instances.is_some_and(|count| count == 0 || count > 4096) {
            return Err("instances must be between 1 and 4096".into());
        }
        let each = Bytes(self.footprint.0 / u64::from(self.instance_count()));
        at_least("footprint per instance", each, Bytes::kib(4))
    }

    fn not_simulated(&self) -> Option<Reason> {
        None
    }

    fn size(&self) -> Option<Bytes> {
        Some(self.footprint)
    }
}
