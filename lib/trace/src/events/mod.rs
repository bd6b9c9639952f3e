//! What a program did to files that it had mapped, one instruction or system call after the other.

mod entities;

use std::ops::Range;

use ringfence_persist::Flush;

pub use entities::{
    Callers, Ended, Frame, Location, Medium, Module, Site, Thread, TracedFile, Unseen,
};

/// Bytes of a line: what a flush writes back.
pub const LINE: u64 = 64;

// What the kernel makes durable at once, at least.
const PAGE: u64 = 4096;

/// A place in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The file's number ([`TracedFile::id`]).
    pub file: u32,
    /// Bytes from its beginning.
    pub offset: u64,
}

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Greater than that of every event before it. Events that touch the same line are in the order
    /// in which they took effect; those of one thread are in its program's order.
    pub sequence: u64,
    /// Which thread did it ([`Thread::id`]).
    pub thread: u32,
    /// The instruction ([`Site::id`]); 0: not known.
    pub site: u32,
    /// The callers of the function that contains it ([`Callers::id`]); 0: unknown.
    pub callers: u32,
    /// What it did.
    pub action: Action,
}

/// What happened. No store reaches beyond the file in which it begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// An ordinary store.
    Store {
        /// Where its first byte went.
        at: Place,
        /// What was stored.
        bytes: Vec<u8>,
    },
    /// A store past the caches.
    NonTemporal {
        /// Where its first byte went.
        at: Place,
        /// What was stored.
        bytes: Vec<u8>,
    },
    /// A load. Only some recordings have them.
    Load {
        /// Where its first byte came from.
        at: Place,
        /// Bytes that were loaded.
        size: u32,
    },
    /// The line that contains `at` was flushed.
    Flush {
        /// The instruction.
        flush: Flush,
        /// Its operand, wherever it points within the line.
        at: Place,
    },
    /// `sfence`.
    Sfence,
    /// `mfence`.
    Mfence,
    /// An instruction with a lock prefix, or `xchg` with memory.
    Locked {
        /// What it stored, and where; `None` where that was outside of the files, or it stored
        /// nothing.
        stores: Option<(Place, Vec<u8>)>,
    },
    /// `msync` of a part of a file, or `fsync`, `fdatasync`, `syncfs` or `sync` of all of it: only
    /// those that succeeded and waited for the medium, so none with `MS_ASYNC`.
    Msync {
        /// Its first byte.
        at: Place,
        /// Requested bytes; more than a file can have for all of them.
        size: u64,
        /// The last event before the call began: what came later, while it ran, it need not cover.
        /// `None` where that is not known, and it is taken to cover all that came before it ended.
        began: Option<u64>,
    },
    /// `sync_file_range` of a part of a file. It makes nothing durable: neither does it flush the
    /// device's cache, nor does it write what the file system needs to find the data.
    SyncRange {
        /// Its first byte.
        at: Place,
        /// Requested bytes; more than a file can have for all of them.
        size: u64,
    },
    /// A part of a file was mapped, shared.
    Map {
        /// Its first byte.
        at: Place,
        /// Its address in the process's memory.
        address: u64,
        /// Bytes.
        size: u64,
    },
    /// A part of a file is mapped no more.
    Unmap {
        /// Its first byte.
        at: Place,
        /// Where it lay in the process' memory.
        address: u64,
        /// Bytes.
        size: u64,
    },
    /// The kernel wrote to the file: by `write` and its kin, or because a mapped buffer was handed
    /// to `read`.
    Write {
        /// Where the first byte went.
        at: Place,
        /// What was written.
        bytes: Vec<u8>,
    },
    /// The file has a new size: shorter, or longer with zeros at its end.
    Truncate {
        /// The file's number.
        file: u32,
        /// Its size from now on, bytes.
        size: u64,
    },
    /// The program wrote this to its standard output; it had, by the end of the call. Only some
    /// recordings have them.
    Output {
        /// What was written.
        bytes: Vec<u8>,
    },
}

impl Place {
    /// The first byte of the line that holds it.
    pub fn line(self) -> Self {
        Self { file: self.file, offset: self.offset & !(LINE - 1) }
    }
}

impl Action {
    /// The place that it is about, if it is about one.
    pub fn at(&self) -> Option<Place> {
        match self {
            Self::Store { at, .. }
            | Self::NonTemporal { at, .. }
            | Self::Load { at, .. }
            | Self::Flush { at, .. }
            | Self::Msync { at, .. }
            | Self::SyncRange { at, .. }
            | Self::Map { at, .. }
            | Self::Unmap { at, .. }
            | Self::Write { at, .. } => Some(*at),
            Self::Locked { stores } => stores.as_ref().map(|(at, _)| *at),
            Self::Truncate { file, .. } => Some(Place { file: *file, offset: 0 }),
            Self::Sfence | Self::Mfence | Self::Output { .. } => None,
        }
    }

    /// The bytes of a file that it makes durable as a whole, or ends: by `msync`, whose parts of
    /// pages are pages, and by making the file shorter. A line of which something stays is not
    /// among them. It need not cover what came behind the event [`Action::began`].
    pub fn settles(&self) -> Option<(u32, Range<u64>)> {
        match self {
            Self::Msync { at, size, .. } => {
                let end = at.offset.saturating_add(*size).checked_next_multiple_of(PAGE);
                Some((at.file, at.offset / PAGE * PAGE..end.unwrap_or(u64::MAX)))
            }
            Self::Truncate { file, size } => {
                Some((*file, size.div_ceil(LINE).saturating_mul(LINE)..u64::MAX))
            }
            _ => None,
        }
    }

    /// Of a call that takes its time, the last event before it began, if that is known.
    pub fn began(&self) -> Option<u64> {
        match self {
            Self::Msync { began, .. } => *began,
            _ => None,
        }
    }

    /// The bytes that it changed in the file, and where.
    pub fn stores(&self) -> Option<(Place, &[u8])> {
        match self {
            Self::Store { at, bytes }
            | Self::NonTemporal { at, bytes }
            | Self::Write { at, bytes } => Some((*at, bytes)),
            Self::Locked { stores } => stores.as_ref().map(|(at, bytes)| (*at, &bytes[..])),
            Self::Load { .. } | Self::Flush { .. } | Self::Sfence | Self::Mfence => None,
            Self::Msync { .. } | Self::SyncRange { .. } | Self::Truncate { .. } => None,
            Self::Map { .. } | Self::Unmap { .. } | Self::Output { .. } => None,
        }
    }
}
