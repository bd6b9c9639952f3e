//! A recording's stores, flushes and fences executed again in memory of this machine: as they were,
//! by another flush instruction, or without those that were needless.
//!
//! One thread executes all of them in their order, with nothing of the program in between: no
//! loads, no system calls, no arithmetic. What differs between two ways to play is therefore what
//! the program could gain or lose at most, but for what it computes meanwhile. Pages are packed:
//! those that nothing was stored to or flushed in take no memory.

use ringfence_persist::{Flush, Memory, isa};
use rustc_hash::FxHashMap;

use crate::census::dynamic::Needless;
use crate::events::{Action, LINE, Place};
use crate::recording::{Reader, RecordingError};

const PAGE: u64 = 4096;

/// Bytes of memory that are played in, at most.
pub const MOST_MEMORY: usize = 1 << 30;

/// Operations and bytes that are held, at most.
pub const MOST_HELD: usize = 1 << 28;

/// A recording as it is executed again.
#[derive(Debug, Default)]
pub struct Playback {
    ops: Vec<Op>,
    bytes: Vec<u8>,
    pages: usize,
}

/// How it is played.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Way {
    /// Each flush by its own instruction.
    AsRecorded,
    /// Each flush by this one.
    By(Flush),
    /// As recorded, without flushes and fences that were needless.
    Needed,
    /// Without flushes; fences stay.
    NoFlush,
    /// Without flushes and fences.
    Bare,
}

/// Why a recording is not played.
#[derive(Debug, thiserror::Error)]
pub enum PlaybackError {
    /// It cannot be read.
    #[error(transparent)]
    Recording(#[from] RecordingError),
    /// It is too long, or touches too much.
    #[error("it has more than {} of {what}, which is the limit", .most)]
    TooLarge {
        /// Of what there is too much.
        what: &'static str,
        /// How much there may be.
        most: usize,
    },
}

#[derive(Debug, Clone, Copy)]
struct Op {
    at: u32,
    len: u16,
    kind: Kind,
    needless: bool,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Store,
    NonTemporal,
    Flush(Flush),
    Sfence,
    Mfence,
    Locked,
}

impl Playback {
    /// Reads a recording. What the kernel wrote is stored; `msync` and what else is a system call
    /// is left out.
    ///
    /// # Errors
    /// Where the recording is damaged, or too large.
    pub fn of(recording: &Reader) -> Result<Self, PlaybackError> {
        let mut this = Self::default();
        let mut pages = FxHashMap::default();
        let mut needless = Needless::default();
        for event in recording.events() {
            let event = event?;
            let skip = needless.step(&event);
            let mut op = |kind| this.ops.push(Op { at: 0, len: 0, kind, needless: skip });
            match &event.action {
                Action::Store { at, bytes } | Action::Write { at, bytes } => {
                    this.store(&mut pages, Kind::Store, *at, bytes);
                }
                Action::NonTemporal { at, bytes } => {
                    // Parts of words cannot be stored past the caches here.
                    let whole = at.offset.is_multiple_of(8) && bytes.len().is_multiple_of(8);
                    let kind = if whole { Kind::NonTemporal } else { Kind::Store };
                    this.store(&mut pages, kind, *at, bytes);
                }
                Action::Flush { flush, at } => {
                    let at = this.place(&mut pages, at.line());
                    this.ops.push(Op { at, len: 0, kind: Kind::Flush(*flush), needless: skip });
                }
                Action::Sfence => op(Kind::Sfence),
                Action::Mfence => op(Kind::Mfence),
                Action::Locked { stores } => {
                    op(Kind::Locked);
                    if let Some((at, bytes)) = stores {
                        this.store(&mut pages, Kind::Store, *at, bytes);
                    }
                }
                Action::Load { .. }
                | Action::Msync { .. }
                | Action::SyncRange { .. }
                | Action::Truncate { .. }
                | Action::Map { .. }
                | Action::Unmap { .. }
                | Action::Output { .. } => {}
            }
            let too_large = |what, most| Err(PlaybackError::TooLarge { what, most });
            match () {
                () if this.memory() > MOST_MEMORY => {
                    return too_large("bytes in pages", MOST_MEMORY);
                }
                () if this.bytes.len() > MOST_HELD => return too_large("bytes stored", MOST_HELD),
                () if this.ops.len() > MOST_HELD / size_of::<Op>() => {
                    return too_large("events", MOST_HELD / size_of::<Op>());
                }
                () => {}
            }
        }
        Ok(this)
    }

    // Where it lies in the memory that is played in.
    fn place(&mut self, pages: &mut FxHashMap<(u32, u64), u32>, at: Place) -> u32 {
        let next = pages.len() as u32;
        let page = *pages.entry((at.file, at.offset / PAGE)).or_insert(next);
        self.pages = pages.len();
        page.saturating_mul(PAGE as u32) + (at.offset % PAGE) as u32
    }

    fn store(
        &mut self,
        pages: &mut FxHashMap<(u32, u64), u32>,
        kind: Kind,
        at: Place,
        bytes: &[u8],
    ) {
        let mut rest = bytes;
        let mut offset = at.offset;
        while !rest.is_empty() && self.memory() <= MOST_MEMORY {
            let (now, later) = rest.split_at(rest.len().min((PAGE - offset % PAGE) as usize));
            let at = self.place(pages, Place { file: at.file, offset });
            self.ops.push(Op { at, len: now.len() as u16, kind, needless: false });
            self.bytes.extend_from_slice(now);
            (rest, offset) = (later, offset + now.len() as u64);
        }
    }

    /// Bytes of memory that it needs.
    pub fn memory(&self) -> usize {
        self.pages * PAGE as usize
    }

    /// Whether nothing would be done.
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    /// Whether some flush or fence was needless.
    pub fn has_needless(&self) -> bool {
        self.ops.iter().any(|op| op.needless)
    }

    /// The flush instructions that were executed, the most frequent first.
    pub fn flushes(&self) -> Vec<Flush> {
        let mut counts = FxHashMap::<Flush, usize>::default();
        for op in &self.ops {
            if let Kind::Flush(flush) = op.kind {
                *counts.entry(flush).or_default() += 1;
            }
        }
        let mut all: Vec<Flush> = counts.keys().copied().collect();
        all.sort_by_key(|flush| std::cmp::Reverse(counts[flush]));
        all
    }

    /// Executes it; `flush_by` has a memory flush by an instruction from then on.
    ///
    /// # Panics
    /// If the memory is smaller than [`Playback::memory`].
    pub fn play<M: Memory>(&self, memory: &mut M, flush_by: impl Fn(&mut M, Flush), way: Way) {
        // Fences, too, are as the instruction wants them that they wait for.
        let mut current = match way {
            Way::By(flush) => flush,
            _ => self.flushes().first().copied().unwrap_or(Flush::Clflush),
        };
        flush_by(memory, current);
        let mut bytes = &self.bytes[..];
        for op in &self.ops {
            let at = op.at as usize;
            match op.kind {
                Kind::Store | Kind::NonTemporal => {
                    let (now, later) = bytes.split_at(op.len.into());
                    bytes = later;
                    match (op.kind, <[u8; 8]>::try_from(now)) {
                        (Kind::NonTemporal, _) => memory.store_nt(at, now),
                        (_, Ok(word)) if at.is_multiple_of(8) => {
                            memory.store_u64(at, u64::from_ne_bytes(word));
                        }
                        _ => memory.store(at, now),
                    }
                }
                Kind::Flush(own) => {
                    let is_played = match way {
                        Way::AsRecorded | Way::By(_) => true,
                        Way::Needed => !op.needless,
                        Way::NoFlush | Way::Bare => false,
                    };
                    if is_played {
                        if !matches!(way, Way::By(_)) && own != current {
                            current = own;
                            flush_by(memory, own);
                        }
                        memory.flush(at..at + LINE as usize);
                    }
                }
                Kind::Sfence | Kind::Mfence => match (way, op.kind) {
                    (Way::Bare, _) => {}
                    (Way::Needed, _) if op.needless => {}
                    (_, Kind::Mfence) => memory.mfence(),
                    _ => memory.sfence(),
                },
                Kind::Locked => isa::locked(),
            }
        }
    }
}
