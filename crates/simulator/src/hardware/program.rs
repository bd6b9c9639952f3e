//! What a simulated thread does.

use ringfence_persist::Flush;

use crate::hardware::time::Ps;

/// A line of 64 bytes in a run's memory, by number. [`Region::line`] gives them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Line(pub(crate) u32);

impl Line {
    /// The line's number in the run, counted over all regions.
    pub fn number(self) -> u32 {
        self.0
    }
}

/// Lines of one node's memory, one after the other, that a run gave out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    pub(crate) first: u32,
    pub(crate) lines: u32,
}

impl Region {
    /// How many lines it has.
    pub fn lines(self) -> u32 {
        self.lines
    }

    /// Its first lines, so many or all of them.
    pub fn part(self, lines: u32) -> Self {
        Self { lines: lines.min(self.lines), ..self }
    }

    /// One of its lines, counted from 0.
    ///
    /// # Panics
    /// Where it has no such line.
    #[inline]
    pub fn line(self, index: u32) -> Line {
        assert!(index < self.lines, "line {index} of a region of {} lines", self.lines);
        Line(self.first + index)
    }
}

/// An operation, as a line sees it: what a program does within a line at once is one operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// Loads a line.
    Load {
        /// Which.
        line: Line,
        /// Whether the address comes out of the load before it.
        dependent: bool,
    },
    /// Stores to a line.
    Store(Line),
    /// Stores all of a line by an instruction that says so, as `rep movsb` does, so that its
    /// content is not read.
    StoreWhole(Line),
    /// Stores so many bytes to a line past the caches. Its write-combining buffer leaves when it
    /// has 64.
    NtStore {
        /// Which.
        line: Line,
        /// From 1 to 64.
        bytes: u8,
    },
    /// Writes a line back.
    Flush {
        /// By which instruction.
        kind: Flush,
        /// Which.
        line: Line,
    },
    /// Keeps younger stores and flushes back until memory has accepted all older flushes and
    /// non-temporal stores.
    Sfence,
    /// Keeps everything younger back until everything older is complete.
    Mfence,
    /// Keeps everything younger back until the data of older loads is there.
    Lfence,
    /// Reads and writes a line as one, and is a fence like [`Op::Mfence`].
    Locked(Line),
    /// Computes for so long where no sibling takes the ports.
    Compute(Ps),
    /// Does nothing for so long, and leaves the ports to the sibling.
    Rest(Ps),
    /// Counts units of work as done once all older stores, flushes and fences have left the store
    /// buffer.
    Units(u32),
    /// Does nothing more.
    End,
}

/// The program of one hardware thread.
///
/// What a program needs to know of results is the time: behind [`Op::Lfence`] the next operation is
/// asked for when the data of all loads is there, behind [`Op::Mfence`] when everything is
/// complete.
pub trait Program: Send {
    /// The next operation, asked for when the thread's front end is ready for it.
    fn next(&mut self, now: Ps) -> Op;
}

impl<F: FnMut(Ps) -> Op + Send> Program for F {
    fn next(&mut self, now: Ps) -> Op {
        self(now)
    }
}
