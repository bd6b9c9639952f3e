//! The parameters of a sequential reader and writer.

use ringfence_machine::units::Bytes;
use serde::{Deserialize, Serialize};

use super::axes::axes;
use super::parameters::{Parameters, at_least};
use crate::Reason;

/// A sequential reader and writer: `a[i] = b[i] + c[i]` over three arrays, as in STREAM's add.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Stream {
    /// Bytes in the three arrays together.
    pub size: Bytes,
}

impl Default for Stream {
    fn default() -> Self {
        Self { size: Bytes::mib(192) }
    }
}

axes!(Stream: Streams, "stream" { size: Bytes });

impl Parameters for Stream {
    fn unit(&self) -> &'static str {
        "bytes"
    }

    fn bytes_per_unit(&self) -> Option<u64> {
        Some(1)
    }

    fn check(&self) -> Result<(), String> {
        at_least("size", self.size, Bytes::kib(4))
    }

    fn not_simulated(&self) -> Option<Reason> {
        None
    }

    fn size(&self) -> Option<Bytes> {
        Some(self.size)
    }
}
