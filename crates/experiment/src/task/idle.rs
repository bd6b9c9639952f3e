//! The parameters of nothing: it has none.

use serde::{Deserialize, Serialize};

use super::axes::axes;
use super::parameters::Parameters;
use crate::Reason;

/// Nothing at all.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Idle {}

axes!(Idle: Idles, "idle" {});

impl Parameters for Idle {
    fn unit(&self) -> &'static str {
        "none"
    }

    fn not_simulated(&self) -> Option<Reason> {
        None
    }
}
