//! Names of threads, and why a run cannot be as it was asked for.

use crate::hardware::machine::InvalidMachine;
use crate::hardware::units::ps;

/// Cores that may have programs at once.
pub(super) const MOST_CORES: usize = 64;
/// Classes of service.
pub(super) const CLASSES: usize = 16;

/// A hardware thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct HardwareThread {
    /// Its core, counted over all sockets.
    pub core: u32,
    /// Which of the core's threads it is.
    pub sibling: u32,
}

/// A thread of a run, by its place among those that were added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Thread(pub(crate) usize);

/// Why a run cannot begin, or be changed, like this: a sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SetupError {
    /// The machine's description makes no sense.
    #[error(transparent)]
    Machine(#[from] InvalidMachine),
    /// There is no such node.
    #[error("there is no node {node}: nodes are counted from 0 to {last}")]
    NoNode {
        /// What was asked for.
        node: usize,
        /// The last there is.
        last: usize,
    },
    /// More memory than can be numbered.
    #[error(
        "{bytes} bytes do not fit: a run has at most {most} in all, and at least one line in each \
         region"
    )]
    NoRoom {
        /// What was asked for.
        bytes: u64,
        /// What fits into a run.
        most: u64,
    },
    /// There is no such hardware thread.
    #[error(
        "there is no thread {sibling} of core {core}: the machine has {cores} cores of {threads} \
         threads"
    )]
    NoThread {
        /// What was asked for.
        core: u32,
        /// Which of its threads.
        sibling: u32,
        /// Cores there are.
        cores: u32,
        /// Threads of each.
        threads: u32,
    },
    /// A hardware thread runs one program.
    #[error("thread {sibling} of core {core} has a program already")]
    Taken {
        /// The core.
        core: u32,
        /// Which of its threads.
        sibling: u32,
    },
    /// Too many cores with programs.
    #[error("programs can run on at most {MOST_CORES} cores at once")]
    TooManyCores,
    /// There is no such class.
    #[error("there is no class {class}: classes are counted from 0 to {last}", last = CLASSES - 1)]
    NoClass {
        /// What was asked for.
        class: usize,
    },
    /// A mask with no way of the cache.
    #[error("mask {mask:#x} has none of the {ways} ways of the cache")]
    EmptyMask {
        /// What was asked for.
        mask: u32,
        /// Ways there are.
        ways: u32,
    },
}

/// The gap in picoseconds of a gap in nanoseconds, and the ways that a mask has.
pub(super) fn class(
    class: usize,
    mask: u32,
    ways: u32,
    gap_ns: f64,
) -> Result<(u32, u64), SetupError> {
    if class >= CLASSES {
        return Err(SetupError::NoClass { class });
    }
    let have = mask & (!0 >> (32 - ways));
    if have == 0 {
        return Err(SetupError::EmptyMask { mask, ways });
    }
    Ok((have, ps(gap_ns.max(0.0))))
}
