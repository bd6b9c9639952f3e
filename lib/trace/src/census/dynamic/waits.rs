//! What fences waited for.

use serde::Serialize;

/// Fences, by the number of lines that they waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Waits {
    /// Lines that were flushed, or stored to past the caches, since the fence before; at least 1.
    pub lines: u64,
    /// `sfence` and `mfence`.
    pub fences: u64,
}
