//! The side that pushes.

use std::time::Duration;

use super::backoff::Backoff;
use super::error::RingError;
use super::index::Ahead;
use super::layout::{ENTRY_HEAD, EPOCH_SLOTS, Entry, FREED, PUBLISHED, Shape};
use super::lock::Seat;
use super::words::{Epochs, Word};
use crate::faults::planted;
use crate::record::Record;
use crate::{LINE, Lost, Memory};

/// The side of a ring that pushes. There is one at a time.
#[derive(Debug)]
pub struct Producer<M: Memory> {
    memory: M,
    shape: Shape,
    ahead: Ahead,
    // Of `ahead.published()`, so that a push divides nothing.
    offset: usize,
    epoch: u64,
    epochs: Record<16>,
    // Entries of so many bytes and more are written past the caches.
    nt_threshold: usize,
    // Entries were written beyond `published`, and may stay there.
    unpublished: bool,
    wanting: bool,
    _seat: Option<Seat>,
}

impl<M: Memory> Producer<M> {
    /// Begins to push to a ring that was [recovered](super::recover), behind its last published
    /// entry. Records the next epoch first, so that whatever an earlier producer left behind that
    /// point stays dead.
    ///
    /// For memory that no [`Ring`](super::Ring) guards: there must be no other producer.
    ///
    /// # Errors
    /// [`RingError`]: no ring, damage, a medium that fails.
    pub fn attach(memory: M) -> Result<Self, RingError> {
        Self::seated(memory, 0, None)
    }

    /// Writes entries (head and padding included) below so many bytes by ordinary stores and
    /// flushes, as a policy may say, and the others past the caches. Without it every entry goes
    /// past the caches; the producers of a [`Ring`](super::Ring) follow its
    /// [`Methods`](crate::Methods).
    pub fn with_nt_threshold(self, nt_threshold: usize) -> Self {
        Self { nt_threshold, ..self }
    }

    pub(super) fn seated(
        memory: M,
        nt_threshold: usize,
        seat: Option<Seat>,
    ) -> Result<Self, RingError> {
        let shape = Shape::read(&memory)?;
        let damaged = |what: &str| RingError::Damaged(what.into());
        let (epochs, bytes) = Record::open(&memory, EPOCH_SLOTS, shape.salt)
            .ok_or_else(|| damaged("neither slot of the epoch is whole"))?;
        let (published, freed) = (memory.load_u64(PUBLISHED), memory.load_u64(FREED));
        let last = Epochs::decode(bytes)?;
        let used = published.checked_sub(freed).filter(|used| *used <= shape.capacity as u64);
        if used.is_none() || !shape.is_position(published) || published < last.start {
            return Err(damaged("its indices cannot be: it was not recovered"));
        }
        let mut producer = Self {
            offset: shape.offset_of(published),
            ahead: Ahead::new(published, freed, shape.capacity as u64),
            memory,
            shape,
            epoch: last.epoch,
            epochs,
            nt_threshold,
            unpublished: false,
            wanting: false,
            _seat: seat,
        };
        if !planted("attached-without-epoch") {
            producer.next_epoch()?;
        }
        // An earlier producer may have waited for room when it went.
        producer.want(false);
        Ok(producer)
    }

    /// The longest payload, in bytes: the capacity less 32.
    pub fn max_payload(&self) -> usize {
        self.shape.max_payload()
    }

    /// Pushes an entry if there is room now: durable on return, and there for the consumer. One
    /// fence.
    ///
    /// # Errors
    /// [`RingError::Full`], [`RingError::TooLong`], [`RingError::Damaged`]: the entry is not
    /// pushed.
    /// [`RingError::Lost`]: no consumer sees it while the ring is open, but it may be there when it
    /// is opened again.
    #[inline]
    pub fn try_push(&mut self, payload: &[u8]) -> Result<(), RingError> {
        self.settle()?;
        let to = self.room_for(self.ahead.published(), payload.len())?;
        self.unpublished = true;
        let offset = self.write(self.ahead.published(), self.offset, payload);
        self.publish(to, offset)
    }

    /// As [`try_push`](Self::try_push), but waits for room as long as it takes: spinning at first,
    /// then sleeping for up to 1 ms at a time.
    ///
    /// # Errors
    /// As [`try_push`](Self::try_push), but never [`RingError::Full`].
    #[doc(alias = "pmemlog_append")]
    #[inline]
    pub fn push(&mut self, payload: &[u8]) -> Result<(), RingError> {
        match self.try_push(payload) {
            Err(RingError::Full) => self.push_slowly(payload, Backoff::forever()),
            other => other,
        }
    }

    /// As [`push`](Self::push), but for so long at most, then [`RingError::Full`].
    ///
    /// # Errors
    /// As [`try_push`](Self::try_push).
    pub fn push_within(&mut self, payload: &[u8], patience: Duration) -> Result<(), RingError> {
        self.push_slowly(payload, Backoff::until(patience))
    }

    #[cold]
    fn push_slowly(&mut self, payload: &[u8], mut backoff: Backoff) -> Result<(), RingError> {
        loop {
            match self.try_push(payload) {
                Err(RingError::Full) if backoff.wait() => {}
                other => return other,
            }
        }
    }

    /// Begins a batch: entries that become durable and visible together, under one fence, at
    /// [`Batch::commit`]. After a crash before that returns, a first part of the batch may be
    /// there, in order, each entry whole.
    ///
    /// # Errors
    /// [`RingError::Lost`]: an earlier batch was abandoned, and the medium failed.
    #[doc(alias = "pmemlog_appendv")]
    pub fn batch(&mut self) -> Result<Batch<'_, M>, RingError> {
        self.settle()?;
        let (to, offset) = (self.ahead.published(), self.offset);
        Ok(Batch { producer: self, to, offset, done: false })
    }

    #[inline]
    fn room_for(&mut self, from: u64, len: usize) -> Result<u64, RingError> {
        let max = self.shape.max_payload();
        if len > max {
            return Err(RingError::TooLong { len, max });
        }
        let to = from + self.shape.size_of(len) as u64;
        if self.ahead.has_room(to, &Word(&self.memory, FREED))? {
            if self.wanting && !planted("wanted-stays") {
                self.want(false);
            }
            return Ok(to);
        }
        self.want(true);
        Err(RingError::Full)
    }

    // Asks the consumer to make its cursor durable although it is lazy.
    #[cold]
    fn want(&mut self, wanting: bool) {
        self.wanting = wanting;
        self.memory.store_u64(PUBLISHED + 8, u64::from(wanting));
    }

    // Writes an entry that fits, and returns the offset behind it.
    #[inline]
    fn write(&mut self, position: u64, offset: usize, payload: &[u8]) -> usize {
        let entry = Entry { position, epoch: self.epoch, len: payload.len() as u32 };
        let size = self.shape.size_of(payload.len());
        let streamed = size >= self.nt_threshold;
        if size <= 2 * LINE {
            // Less to clear than for the longest that is staged whole.
            self.put_whole::<{ 2 * LINE }>(offset, &entry, payload, size, streamed);
        } else if size <= STAGE {
            self.put_whole::<STAGE>(offset, &entry, payload, size, streamed);
        } else {
            let mut stage = Stage([0; STAGE]);
            // Whole lines from where they are; the rest of the last one, and the first with the
            // head, are staged. The first comes last, so that the checksum is worked out while the
            // others drain.
            let (first, rest) = payload.split_at(LINE - ENTRY_HEAD);
            let (lines, tail) = rest.split_at(rest.len() & !(LINE - 1));
            self.put(offset + LINE, lines, streamed);
            stage.0[..tail.len()].copy_from_slice(tail);
            self.put(offset + LINE + lines.len(), &stage.0[..size - LINE - lines.len()], streamed);
            let mut stage = Stage([0; STAGE]);
            stage.0[..ENTRY_HEAD].copy_from_slice(&entry.encode(payload, self.shape.salt));
            stage.0[ENTRY_HEAD..LINE].copy_from_slice(first);
            self.put(offset, &stage.0[..LINE], streamed);
        }
        self.shape.behind(offset, size)
    }

    #[inline]
    fn put_whole<const N: usize>(
        &self,
        offset: usize,
        entry: &Entry,
        payload: &[u8],
        size: usize,
        streamed: bool,
    ) {
        let mut stage = Stage([0; N]);
        stage.0[..ENTRY_HEAD].copy_from_slice(&entry.encode(payload, self.shape.salt));
        stage.0[ENTRY_HEAD..ENTRY_HEAD + payload.len()].copy_from_slice(payload);
        self.put(offset, &stage.0[..size], streamed);
    }

    #[inline]
    fn put(&self, offset: usize, bytes: &[u8], streamed: bool) {
        let [first, second] = self.shape.pieces(offset, bytes.len());
        let (one, other) = bytes.split_at(first.len());
        for (range, bytes) in [(first, one), (second, other)] {
            if bytes.is_empty() {
                continue;
            }
            if streamed {
                self.memory.store_nt(range.start, bytes);
            } else {
                self.memory.store(range.start, bytes);
                if !planted("push-not-flushed") {
                    self.memory.flush(range);
                }
            }
        }
    }

    #[inline]
    fn publish(&mut self, to: u64, offset: usize) -> Result<(), RingError> {
        // The consumer has just read it: it comes back while the fence waits.
        self.memory.prefetch(PUBLISHED);
        if !planted("push-not-fenced") {
            self.memory.sfence();
        }
        if !planted("publish-ignores-health") {
            self.memory.health().map_err(Lost)?;
        }
        self.ahead.publish(to, &Word(&self.memory, PUBLISHED));
        self.offset = offset;
        self.unpublished = false;
        Ok(())
    }

    // What was written and not published must not come back once something else is pushed in its
    // place.
    #[inline]
    fn settle(&mut self) -> Result<(), RingError> {
        if self.unpublished && !planted("batch-not-settled") { self.next_epoch() } else { Ok(()) }
    }

    #[cold]
    fn next_epoch(&mut self) -> Result<(), RingError> {
        // After a failure nothing is written over the slot that is known to be good.
        self.memory.health().map_err(Lost)?;
        let epoch = if planted("epoch-not-raised") { self.epoch } else { self.epoch + 1 };
        if planted("epoch-not-recorded") {
            self.unpublished = false;
            return Ok(());
        }
        let start = if planted("start-not-recorded") { 0 } else { self.ahead.published() };
        let record = Epochs { epoch, start }.encode();
        if planted("epoch-not-fenced") {
            self.epochs.put(&self.memory, &record);
        } else {
            self.epochs.write(&self.memory, &record);
        }
        if !planted("epoch-ignores-health") {
            self.memory.health().map_err(Lost)?;
        }
        if !planted("epoch-not-followed") {
            self.epoch = epoch;
        }
        self.unpublished = false;
        Ok(())
    }
}

const STAGE: usize = 256;

#[repr(align(64))]
struct Stage<const N: usize>([u8; N]);

/// Entries that become durable together; see [`Producer::batch`]. Dropped without a commit it is
/// abandoned: an epoch is recorded, and its entries never come back.
#[derive(Debug)]
#[must_use = "a batch that is not committed is abandoned"]
pub struct Batch<'p, M: Memory> {
    producer: &'p mut Producer<M>,
    to: u64,
    offset: usize,
    done: bool,
}

impl<M: Memory> Batch<'_, M> {
    /// Adds an entry, not durable and not visible before [`commit`](Self::commit).
    ///
    /// # Errors
    /// [`RingError::Full`], [`RingError::TooLong`], [`RingError::Damaged`]: the entry is not added,
    /// the others stay. A batch that is larger than the ring stays full for good: commit what is in
    /// it.
    #[inline]
    pub fn push(&mut self, payload: &[u8]) -> Result<(), RingError> {
        let to = self.producer.room_for(self.to, payload.len())?;
        self.producer.unpublished = true;
        self.offset = self.producer.write(self.to, self.offset, payload);
        self.to = to;
        Ok(())
    }

    /// Makes all entries durable by one fence, and then visible.
    ///
    /// # Errors
    /// [`RingError::Lost`]: none of them is visible, but some may be there when the ring is opened
    /// again.
    #[inline]
    pub fn commit(mut self) -> Result<(), RingError> {
        self.done = true;
        if self.to == self.producer.ahead.published() {
            return Ok(());
        }
        self.producer.publish(self.to, self.offset)
    }
}

impl<M: Memory> Drop for Batch<'_, M> {
    fn drop(&mut self) {
        if !self.done {
            // If this fails, the next push does it again, and reports.
            _ = self.producer.settle();
        }
    }
}
