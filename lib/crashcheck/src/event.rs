//! What a run of a program did to memory, one instruction after the other.

use std::fmt;
use std::panic::Location;

/// A place in the source.
pub(crate) type Source = &'static Location<'static>;

/// A place in a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum At {
    /// The location of a call, for a program on [`ringfence_persist::Memory`].
    Source(&'static Location<'static>),
    /// Of a recorded program: an instruction, by a number that the recording gives a meaning.
    Site(u32),
}

impl At {
    /// The place in the source, of a program that has one.
    pub fn source(self) -> Option<&'static Location<'static>> {
        match self {
            At::Source(source) => Some(source),
            At::Site(_) => None,
        }
    }
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            At::Source(source) => write!(f, "{}:{}", source.file(), source.line()),
            At::Site(number) => write!(f, "site {number}"),
        }
    }
}

/// Bytes that a word store writes; smaller and larger stores are made of such.
pub const WORD: usize = 8;

/// A write to one aligned word: which of its bytes, and what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Write {
    /// The word's number: its offset divided by 8.
    pub word: usize,
    /// The bytes; only those selected by `mask` are valid.
    pub bytes: [u8; WORD],
    /// Bit `i`: byte `i` is written.
    pub mask: u8,
}

impl Write {
    /// Of no bytes.
    pub(crate) fn nothing(at: usize) -> Self {
        Self { word: at / WORD, bytes: [0; WORD], mask: 0 }
    }

    /// The offset of the first byte that is written.
    pub fn start(&self) -> usize {
        self.word * WORD + self.mask.trailing_zeros() as usize
    }
}

/// One instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// An ordinary store to one word.
    Store(Write),
    /// A non-temporal store to one word.
    Stream(Write),
    /// `clwb` or `clflushopt` of the line with this number.
    Flushopt(usize),
    /// `clflush` of the line with this number.
    Flush(usize),
    /// `sfence`.
    Sfence,
    /// `mfence`.
    Mfence,
    /// A locked read-modify-write that stores.
    Locked(Write),
    /// A locked operation that stores nothing, such as a compare-exchange that fails.
    LockedOnly,
    /// The program notes a mark for recovery.
    Mark(u64),
    /// The program acknowledges that its stores are durable.
    Acknowledge(u64),
}

/// One instruction, and where in the program it stands.
#[derive(Debug, Clone, Copy)]
pub struct Event {
    /// What it does.
    pub kind: Kind,
    /// The place that caused it.
    pub at: At,
}

impl Kind {
    /// What is stored, if anything is.
    pub fn write(self) -> Option<Write> {
        match self {
            Kind::Store(write) | Kind::Stream(write) | Kind::Locked(write) => Some(write),
            _ => None,
        }
    }

    /// What recovery is told of.
    pub(crate) fn mark(self) -> Option<u64> {
        match self {
            Kind::Mark(mark) | Kind::Acknowledge(mark) => Some(mark),
            _ => None,
        }
    }

    /// Whether it separates earlier from later events by more than a store.
    pub fn is_boundary(self) -> bool {
        match self {
            Kind::Sfence | Kind::Mfence | Kind::Locked(_) | Kind::LockedOnly => true,
            Kind::Mark(_) | Kind::Acknowledge(_) => true,
            Kind::Store(_) | Kind::Stream(_) | Kind::Flushopt(_) | Kind::Flush(_) => false,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let write = |f: &mut fmt::Formatter<'_>, verb: &str, write: &Write| {
            let first = write.mask.trailing_zeros() as usize;
            let len = write.mask.count_ones() as usize;
            write!(f, "{verb} {len} at {}: ", write.word * WORD + first)?;
            write.bytes[first..first + len].iter().try_for_each(|byte| write!(f, "{byte:02x}"))
        };
        match self {
            Kind::Store(bytes) => write(f, "store", bytes),
            Kind::Stream(bytes) => write(f, "non-temporal store", bytes),
            Kind::Locked(bytes) => write(f, "locked store", bytes),
            Kind::LockedOnly => f.write_str("locked instruction"),
            Kind::Flushopt(line) => write!(f, "clwb of the line at {}", line * 64),
            Kind::Flush(line) => write!(f, "clflush of the line at {}", line * 64),
            Kind::Sfence => f.write_str("sfence"),
            Kind::Mfence => f.write_str("mfence"),
            Kind::Mark(mark) => write!(f, "mark {mark}"),
            Kind::Acknowledge(mark) => write!(f, "acknowledge {mark}"),
        }
    }
}
