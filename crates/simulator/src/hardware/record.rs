//! What a run records about durability, for comparison with another model.

use ringfence_persist::Flush;

use crate::hardware::program::Line;
use crate::hardware::time::Ps;

/// Something that matters to what a crash leaves behind.
///
/// Records stand in the order in which the simulated state changed. Times rise within a thread, and
/// within a line that one thread uses; cores may be apart by up to the time from a core to memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Record {
    /// A store reached the first-level cache.
    Stored {
        /// The thread, by its place in the run.
        thread: u32,
        /// The line.
        line: Line,
        /// When.
        at: Ps,
    },
    /// A non-temporal store reached its write-combining buffer.
    NtStored {
        /// The thread, by its place in the run.
        thread: u32,
        /// The line.
        line: Line,
        /// When.
        at: Ps,
    },
    /// A flush left the store buffer.
    Flushed {
        /// The thread, by its place in the run.
        thread: u32,
        /// By which instruction.
        kind: Flush,
        /// The line.
        line: Line,
        /// When.
        at: Ps,
    },
    /// A line left the caches, or a write-combining buffer, for memory, with all that was stored to
    /// it until then.
    Left {
        /// The line.
        line: Line,
        /// The thread whose write-combining buffer had it, if none of the caches did.
        thread: Option<u32>,
        /// When.
        at: Ps,
    },
    /// The write pending queue accepted a line. Of equal lines that left, the first is accepted
    /// first.
    Accepted {
        /// The line.
        line: Line,
        /// When.
        at: Ps,
    },
    /// What a thread flushed, and stored past the caches, before this fence has been accepted.
    Fenced {
        /// The thread, by its place in the run.
        thread: u32,
        /// When.
        at: Ps,
    },
}
