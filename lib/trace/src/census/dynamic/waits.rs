//! What fences waited for.

use serde::Serialize;

/// Fences, by the number of lines that they waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Waits {
    /// Lines that were flushed, or stored to past the caches, since the fence before; at least 1.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub lines: u64,
    /// `sfence` and `mfence`.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub fences: u64,
}
