//! The parameters of arithmetic that needs no memory.

use serde::{Deserialize, Serialize};

use super::axes::axes;
use super::parameters::Parameters;
use crate::Reason;
use crate::units::Share;

/// Integer multiplications that touch no memory.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Alu {
    /// For checking the measurement itself: the share of its work that it skips while this variant
    /// runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handicap: Option<Share>,
}

axes!(Alu: Alus, "alu" { handicap: Option<Share> });

impl Parameters for Alu {
    fn unit(&self) -> &'static str {
        "multiplications"
    }

    fn not_simulated(&self) -> Option<Reason> {
        None
    }
}
