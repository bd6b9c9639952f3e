//! The side that reads and pops.

use std::ops::{ControlFlow, Deref};
use std::time::Duration;

use super::backoff::Backoff;
use super::error::RingError;
use super::index::Behind;
use super::layout::{CURSOR_SLOTS, ENTRY_HEAD, Entry, FREED, PUBLISHED, Shape};
use super::lock::Seat;
use super::words::Word;
use crate::faults::planted;
use crate::record::Record;
use crate::{Lost, Memory};

/// The side of a ring that reads and pops. There is one at a time.
///
/// An entry is popped *durably*, and will never be seen again, or *lazily*: then the cursor is made
/// durable later, for many entries at once, and those popped since the last time are seen again
/// after a crash. That happens when a quarter of the ring has been popped, when the producer waits
/// for room and there is nothing left to read, on [`Consumer::commit`], and when the consumer is
/// dropped.
#[derive(Debug)]
pub struct Consumer<M: Memory> {
    memory: M,
    shape: Shape,
    behind: Behind,
    offset: usize,
    cursor: Record<8>,
    // An entry that meets the ring's end, put together; and any, where memory lends no bytes.
    copy: Vec<u8>,
    seat: Option<Seat>,
}

impl<M: Memory> Consumer<M> {
    /// Begins to read a ring that was [recovered](super::recover), at its durable cursor.
    ///
    /// For memory that no [`Ring`](super::Ring) guards: there must be no other consumer.
    ///
    /// # Errors
    /// [`RingError`]: no ring, damage.
    pub fn attach(memory: M) -> Result<Self, RingError> {
        Self::seated(memory, None)
    }

    pub(super) fn seated(memory: M, seat: Option<Seat>) -> Result<Self, RingError> {
        let shape = Shape::read(&memory)?;
        let (cursor, position) = Record::open(&memory, CURSOR_SLOTS, !shape.salt)
            .ok_or_else(|| RingError::Damaged("neither slot of the cursor is whole".into()))?;
        memory.health().map_err(Lost)?;
        let position = u64::from_le_bytes(position);
        if !shape.is_position(position) {
            return Err(RingError::Damaged(format!("cursor {position} is not a position")));
        }
        let mut behind = Behind::new(position, shape.capacity as u64);
        behind.readable(&Word(&memory, PUBLISHED))?;
        // The last consumer may have made its cursor durable and not said so.
        if !planted("seat-gives-not-back") {
            behind.give_back(&Word(&memory, FREED));
        }
        let offset = shape.offset_of(position);
        Ok(Self { memory, shape, behind, offset, cursor, copy: Vec::new(), seat })
    }

    /// The next entry, if there is one now. It stays in the ring until it is popped.
    ///
    /// # Errors
    /// [`RingError::Damaged`]: what was published is not there. [`RingError::Lost`].
    #[inline]
    pub fn try_read(&mut self) -> Result<Option<Read<'_, M>>, RingError> {
        let readable = self.behind.readable(&Word(&self.memory, PUBLISHED))?;
        if readable == 0 {
            self.lend_room()?;
            return Ok(None);
        }
        let (entry, size) = self.entry_at(self.behind.read(), self.offset, readable)?;
        let payload = self.payload(self.offset, entry.len as usize);
        if planted("cursor-before-read") {
            self.advance(size);
            self.commit()?;
            return Ok(Some(Read { consumer: self, size: 0, payload }));
        }
        Ok(Some(Read { consumer: self, size, payload }))
    }

    /// As [`try_read`](Self::try_read), but waits for an entry as long as it takes: spinning at
    /// first, then sleeping for up to 1 ms at a time.
    ///
    /// # Errors
    /// As [`try_read`](Self::try_read).
    #[inline]
    pub fn read(&mut self) -> Result<Read<'_, M>, RingError> {
        self.wait(Backoff::forever())?;
        self.try_read().map(|entry| entry.expect("there is one, and nobody else takes it"))
    }

    /// As [`read`](Self::read), but for so long at most.
    ///
    /// # Errors
    /// As [`try_read`](Self::try_read).
    pub fn read_within(&mut self, patience: Duration) -> Result<Option<Read<'_, M>>, RingError> {
        self.wait(Backoff::until(patience))?;
        self.try_read()
    }

    #[inline]
    fn wait(&mut self, mut backoff: Backoff) -> Result<(), RingError> {
        while self.behind.readable(&Word(&self.memory, PUBLISHED))? == 0 {
            self.lend_room()?;
            if !backoff.wait() {
                break;
            }
        }
        Ok(())
    }

    /// Looks at every entry that is there now, oldest first, and takes none.
    ///
    /// # Errors
    /// As [`try_read`](Self::try_read).
    #[doc(alias = "pmemlog_walk")]
    pub fn scan(
        &mut self,
        mut look: impl FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), RingError> {
        let mut left = self.behind.latest(&Word(&self.memory, PUBLISHED))?;
        let (mut position, mut offset) = (self.behind.read(), self.offset);
        while left > 0 {
            let (entry, size) = self.entry_at(position, offset, left)?;
            let payload = self.payload(offset, entry.len as usize);
            if look(bytes(&self.memory, &self.copy, &payload)).is_break() {
                break;
            }
            (position, left) = (position + size as u64, left - size as u64);
            offset = self.shape.behind(offset, size);
        }
        Ok(())
    }

    /// Makes the cursor durable behind everything popped, and gives the space back. One fence, or
    /// none where there is nothing to do.
    ///
    /// # Errors
    /// [`RingError::Lost`]: the space stays taken.
    pub fn commit(&mut self) -> Result<(), RingError> {
        if self.behind.freed() == self.behind.read() {
            return Ok(());
        }
        // After a failure nothing is written over the slot that is known to be good.
        self.memory.health().map_err(Lost)?;
        if planted("freed-before-cursor") {
            self.behind.give_back(&Word(&self.memory, FREED));
        }
        let cursor = self.behind.read().to_le_bytes();
        if planted("cursor-not-fenced") {
            self.cursor.put(&self.memory, &cursor);
        } else if !planted("cursor-not-recorded") {
            self.cursor.write(&self.memory, &cursor);
        }
        if !planted("commit-ignores-health") {
            self.memory.health().map_err(Lost)?;
        }
        self.behind.give_back(&Word(&self.memory, FREED));
        Ok(())
    }

    #[inline]
    fn advance(&mut self, size: usize) {
        self.behind.advance(self.behind.read() + size as u64);
        self.offset = self.shape.behind(self.offset, size);
    }

    // Whether a producer waits for space that was popped lazily.
    #[inline]
    fn lend_room(&mut self) -> Result<(), RingError> {
        if self.behind.freed() != self.behind.read() && self.memory.load_u64(PUBLISHED + 8) != 0 {
            return self.commit();
        }
        Ok(())
    }

    // The entry at a place that was published: its size with `left` bytes there at most.
    #[inline]
    fn entry_at(
        &self,
        position: u64,
        offset: usize,
        left: u64,
    ) -> Result<(Entry, usize), RingError> {
        let (entry, sum) = Entry::decode(&self.memory, offset);
        if entry.position == position && entry.len as usize <= self.shape.max_payload() {
            let size = self.shape.size_of(entry.len as usize);
            let whole = entry.is_whole(&self.memory, offset, &self.shape, sum)
                || planted("read-sum-not-checked");
            if size as u64 <= left && whole {
                return Ok((entry, size));
            }
        }
        Err(RingError::Damaged(format!("the entry published at {position} is not whole")))
    }

    #[inline]
    fn payload(&mut self, offset: usize, len: usize) -> Payload {
        let [first, second] = self.shape.pieces(offset + ENTRY_HEAD, len);
        // Only of memory that a ring guards: elsewhere nothing keeps others from storing to it.
        let guarded = self.seat.is_some();
        // SAFETY: only to learn whether bytes are lent; they are not looked at.
        if guarded && second.is_empty() && unsafe { self.memory.bytes(first.clone()) }.is_some() {
            return Payload::Lent(first.start, len);
        }
        self.copy.resize(len, 0);
        let (one, other) = self.copy.split_at_mut(first.len());
        self.memory.load(first.start, one);
        self.memory.load(second.start, other);
        Payload::Copied
    }
}

#[derive(Debug, Clone, Copy)]
enum Payload {
    Lent(usize, usize),
    Copied,
}

#[inline]
fn bytes<'a, M: Memory>(memory: &'a M, copy: &'a [u8], payload: &Payload) -> &'a [u8] {
    match *payload {
        Payload::Lent(start, len) => {
            // SAFETY: the entry was published, and its space is not given back before the borrow of
            // the consumer ends: until then the ring's one producer leaves it alone.
            unsafe { memory.bytes(start..start + len) }.expect("lent before")
        }
        Payload::Copied => copy,
    }
}

impl<M: Memory> Drop for Consumer<M> {
    fn drop(&mut self) {
        // Entries popped lazily are then seen again, as after a crash.
        _ = self.commit();
    }
}

/// An entry in the ring, without a copy except for the one entry per lap that wraps around the end.
/// If it is dropped without being popped, it stays and is read again next time.
#[derive(Debug)]
pub struct Read<'c, M: Memory> {
    consumer: &'c mut Consumer<M>,
    size: usize,
    payload: Payload,
}

impl<M: Memory> Deref for Read<'_, M> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        bytes(&self.consumer.memory, &self.consumer.copy, &self.payload)
    }
}

impl<M: Memory> Read<'_, M> {
    /// Takes the entry; it will never be seen again once this returns. One fence, for all popped
    /// before too.
    ///
    /// # Errors
    /// [`RingError::Lost`]: it is seen again after a crash.
    #[inline]
    pub fn pop_durably(self) -> Result<(), RingError> {
        let Self { consumer, size, .. } = self;
        consumer.advance(size);
        if planted("durable-pop-is-lazy") { Ok(()) } else { consumer.commit() }
    }

    /// Takes the entry; it is seen again after a crash, unless the cursor was made durable
    /// meanwhile.
    ///
    /// # Errors
    /// [`RingError::Lost`], when it was time to make the cursor durable.
    #[inline]
    pub fn pop(self) -> Result<(), RingError> {
        let Self { consumer, size, .. } = self;
        consumer.advance(size);
        let popped = consumer.behind.read() - consumer.behind.freed();
        if popped >= consumer.shape.capacity as u64 / 4 { consumer.commit() } else { Ok(()) }
    }
}
