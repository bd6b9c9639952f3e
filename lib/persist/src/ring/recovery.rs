//! Recovery: the contents of a ring when it is opened.
//!
//! The walk begins at the durable cursor and goes from entry to entry, over at most one capacity.
//! Entries before the epoch record's start were accepted by an earlier recovery: they must be
//! there, of an older epoch, and end exactly at the start, else the ring is damaged. From the start
//! on entries need exactly the recorded epoch; the first that is not whole ends the ring. So an
//! entry that an earlier epoch wrote but never acknowledged does not reappear after a later epoch
//! has pushed in front of it.

use super::error::RingError;
use super::layout::{CURSOR_SLOTS, EPOCH_SLOTS, Entry, FREED, PUBLISHED, Shape};
use super::words::Epochs;
use crate::faults::planted;
use crate::record::Record;
use crate::{Lost, Memory};

/// What was found in a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recovery {
    /// Whole entries between the cursor and the end.
    pub entries: u64,
    /// The consumer's durable cursor, in bytes since the ring was made.
    pub cursor: u64,
    /// Where the entries end: the next one is written there.
    pub end: u64,
    /// The epoch of the last producer; 1 where there was none.
    pub epoch: u64,
    /// The state of the end.
    pub tail: Tail,
}

/// The bytes after the last whole entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tail {
    /// Nothing that says it is the next entry; a torn one whose position did not reach memory looks
    /// like it.
    Clean,
    /// A part of an entry whose push did not return.
    Torn,
    /// An entry that an earlier epoch wrote and never acknowledged.
    Abandoned,
}

/// A ring as it is, without changing anything. It must not be open meanwhile: entries come and go,
/// and what is read of them would not belong together.
///
/// # Errors
/// As [`recover`].
pub fn inspect<M: Memory>(memory: &M) -> Result<(Shape, Recovery), RingError> {
    let shape = Shape::read(memory)?;
    let epochs = Record::<16>::peek(memory, EPOCH_SLOTS, shape.salt);
    let cursors = Record::<8>::peek(memory, CURSOR_SLOTS, !shape.salt);
    let ((_, epoch), (_, cursor)) = epochs.zip(cursors).ok_or_else(no_record)?;
    Ok((shape, walk(memory, &shape, Epochs::decode(epoch)?, u64::from_le_bytes(cursor))?))
}

/// Determines the contents of a ring, makes them durable, and prepares it for a producer and a
/// consumer. Nothing else may use the memory meanwhile.
///
/// In the page cache it relies on the region being newly mapped, which dirties every page: after a
/// failed write the kernel considers pages clean that are not on the medium (fsync(2)).
///
/// # Errors
/// [`RingError`]: no ring, another version, damage, a medium that fails.
pub fn recover<M: Memory>(memory: &M) -> Result<(Shape, Recovery), RingError> {
    let shape = Shape::read(memory)?;
    let (_, epoch) = Record::<16>::open(memory, EPOCH_SLOTS, shape.salt).ok_or_else(no_record)?;
    let (_, cursor) = Record::<8>::open(memory, CURSOR_SLOTS, !shape.salt).ok_or_else(no_record)?;
    let found = walk(memory, &shape, Epochs::decode(epoch)?, u64::from_le_bytes(cursor))?;
    // What was read may be in a cache only: without this, an entry seen now could be gone after the
    // next crash.
    if !planted("accepted-not-flushed") {
        let len = (found.end - found.cursor) as usize;
        for piece in shape.pieces(shape.offset_of(found.cursor), len) {
            memory.flush(piece);
        }
    }
    if !planted("accepted-not-fenced") {
        memory.sfence();
    }
    memory.health().map_err(Lost)?;
    memory.store_u64(PUBLISHED, found.end);
    memory.store_u64(PUBLISHED + 8, 0);
    memory.store_u64(FREED, found.cursor);
    Ok((shape, found))
}

fn no_record() -> RingError {
    RingError::Damaged("neither slot of the epoch or the cursor is whole".into())
}

fn walk<M: Memory>(
    memory: &M,
    shape: &Shape,
    last: Epochs,
    cursor: u64,
) -> Result<Recovery, RingError> {
    let damaged = |what: String| Err(RingError::Damaged(what));
    if !shape.is_position(cursor) || !shape.is_position(last.start) {
        return damaged(format!("cursor {cursor} or start {} is not a position", last.start));
    }
    let limit = cursor + shape.capacity as u64;
    if last.start > limit {
        return damaged(format!(
            "the cursor is at {cursor}, more than a capacity before {}",
            last.start
        ));
    }
    let (mut at, mut entries) = (cursor, 0);
    let tail = loop {
        if at == limit {
            break Tail::Clean;
        }
        let accepted = at < last.start && !planted("start-not-checked");
        let offset = shape.offset_of(at);
        let (entry, sum) = Entry::decode(memory, offset);
        let fits = (entry.position == at || planted("position-not-compared"))
            && entry.len as usize <= shape.max_payload()
            && shape.size_of(entry.len as usize) as u64 <= limit - at;
        let whole =
            fits && (entry.is_whole(memory, offset, shape, sum) || planted("checksum-not-checked"));
        let epoch = if accepted {
            entry.epoch < last.epoch || planted("accepted-epoch-not-compared")
        } else {
            entry.epoch == last.epoch || planted("epoch-not-compared")
        };
        if !(whole && epoch) {
            if accepted {
                return damaged(format!(
                    "the entry at {at} was there when the ring was last opened"
                ));
            }
            break match (fits, whole) {
                (_, true) => Tail::Abandoned,
                (true, false) if entry.epoch == last.epoch => Tail::Torn,
                _ => Tail::Clean,
            };
        }
        at += shape.size_of(entry.len as usize) as u64;
        entries += 1;
        if accepted && at > last.start && !planted("start-may-be-passed") {
            return damaged(format!(
                "an entry goes on beyond {}, where the last life began",
                last.start
            ));
        }
    };
    Ok(Recovery { entries, cursor, end: at, epoch: last.epoch, tail })
}
