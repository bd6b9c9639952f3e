//! The parameters of a pointer chase.

use ringfence_machine::units::Bytes;
use serde::{Deserialize, Serialize};

use super::PageSize;
use super::axes::axes;
use super::parameters::{Parameters, at_least};
use crate::Reason;

/// A pointer chase: each load's address comes from the load before.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Chase {
    /// Bytes chased through, one load per line, each line once per round.
    pub footprint: Bytes,
    /// The pages it lies in.
    pub pages: PageSize,
    /// Whether to time every load alone and count the latencies, which slows the chase down.
    pub histogram: bool,
}

impl Default for Chase {
    fn default() -> Self {
        Self { footprint: Bytes::mib(4), pages: PageSize::Base, histogram: false }
    }
}

axes!(Chase: Chases, "chase" { footprint: Bytes, pages: PageSize, histogram: bool });

impl Parameters for Chase {
    fn unit(&self) -> &'static str {
        "loads"
    }

    fn check(&self) -> Result<(), String> {
        at_least("footprint", self.footprint, Bytes::kib(4))
    }

    fn not_simulated(&self) -> Option<Reason> {
        None
    }

    fn size(&self) -> Option<Bytes> {
        Some(self.footprint)
    }

    fn takes_ordinary_memory(&self) -> bool {
        self.pages != PageSize::Huge2M
    }

    fn counts_latencies(&self) -> bool {
        self.histogram
    }

    fn times_loads(&self) -> bool {
        self.histogram
    }
}
