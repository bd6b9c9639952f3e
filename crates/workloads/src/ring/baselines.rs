//! The ring buffers of the slides that our ring is measured against: Piotr Balcer, *Performance
//! guidelines for Intel Optane DC persistent memory*.
//!
//! They are baselines and no queues to use: entries of one length, no checksum, no recovery, and
//! nothing keeps a second producer out. Two of them are wrong, each [`Kind`] says how. Only what
//! they need of `libpmem` is written out, as it does it where AVX-512 is allowed
//! (`PMEM_AVX512F=1`): `pmem_persist` is the best flush instruction and an `sfence`, `pmem_memcpy`
//! with `PMEM_F_MEM_NONTEMPORAL | PMEM_F_MEM_NODRAIN` a copy by the widest non-temporal stores
//! without a fence.
//!
//! Where the slides leave something out it is decided in the baselines' favour: slots begin at
//! lines, a last part of a line is padded and written as a whole one, any number of slots is
//! possible (a comparison where the slides mask).

use std::marker::PhantomData;
use std::ops::{Deref, Range};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ringfence_persist::isa::{self, Flush, LINE, Width};
use ringfence_persist::{Memory, Region, checksum};

/// Which of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// "Ring buffer - first persistent implementation": the position is flushed, then the entry's
    /// length and bytes are stored and every line of them flushed, then the position is stored and
    /// flushed, all with `clflush`.
    ///
    /// Ordered, since `clflush` is ordered with stores and with other `clflush` (Intel SDM volume
    /// 2A, "CLFLUSH"), but nothing waits for the last one: durable soon after the push returns, not
    /// when.
    Naive,
    /// "Ring buffer - optimized persistent implementation": `pmem_persist` of the position, a
    /// non-temporal copy without a fence, a release store of the position, `pmem_persist` of it.
    ///
    /// **Wrong as published.** A release store is an ordinary one, and ordinary stores are not
    /// ordered behind earlier non-temporal ones (Intel SDM volume 1, section 10.4.6.2, "Caching of
    /// Temporal vs. Non-Temporal Data"): the position can be seen before the entry, so that a
    /// consumer on another core reads what the slot held a lap ago, and it can be durable before
    /// the entry, so that it is there after a crash and the entry is not. On the thread that pushed
    /// both are in order.
    Optimised,
    /// The same with a fence on each side of the position: the copy is fenced, then the position
    /// stored, flushed and fenced.
    ///
    /// The first `pmem_persist` is left out: it made the consumer's position durable before its
    /// space is written again. Here the consumer does so itself, for a quarter of the ring at a
    /// time, before the producer sees it; what producer and consumer write is on lines of its own.
    /// Two fences for each entry remain. An entry can be seen a moment before it is durable.
    Repaired,
}

/// Bytes before the first slot.
pub const HEAD: usize = 4096;

// Where positions lie: with the slides' rings both on one line.
const WRITE: usize = 0;
const READ: usize = 8;
const CURSOR: usize = 256;
const FREED: usize = 512;

#[derive(Clone)]
struct Ring<M> {
    memory: M,
    kind: Kind,
    entry: usize,
    stride: usize,
    slots: u64,
}

/// The side that pushes.
pub struct Producer<M>(Ring<M>);

/// The side that pushes, on its way to another thread.
pub struct Sent(Producer<Bare>);

// SAFETY: made of those kinds alone that order an entry before its position and a position before
// the entry that takes its place (`Producer::to_send`); positions are atomic, and nothing else is
// shared.
unsafe impl Send for Sent {}

impl Sent {
    /// On the thread that is to push.
    pub fn here(self) -> Producer<Bare> {
        self.0
    }
}

/// The side that reads.
pub struct Consumer<M> {
    ring: Ring<M>,
    read: u64,
    // Slots read since the last time that they were given back.
    held: u64,
    // An entry, where memory lends no bytes.
    copy: Vec<u8>,
}

/// An entry where it lies.
pub struct Entry<'a, M: Memory> {
    consumer: &'a mut Consumer<M>,
    at: usize,
}

/// Makes an empty ring in memory, over whatever is there: entries of `entry` bytes in `size` bytes
/// behind a head of [`HEAD`]. Both sides are for this thread, but see [`Producer::to_send`].
///
/// # Panics
/// If there is not so much memory, an entry has no bytes, or fewer than two fit.
pub fn create<M: Memory + Clone>(
    memory: M,
    kind: Kind,
    entry: usize,
    size: usize,
) -> (Producer<M>, Consumer<M>) {
    let length = if kind == Kind::Naive { 8 } else { 0 };
    let stride = (length + entry).next_multiple_of(LINE);
    let slots = (size / stride) as u64;
    assert!(
        entry > 0 && slots >= 2 && HEAD + size <= memory.len(),
        "no ring of {entry} in {size} bytes"
    );
    let ring = Ring { memory, kind, entry, stride, slots };
    for at in [WRITE, READ, CURSOR, FREED] {
        ring.memory.store_u64(at, 0);
        ring.persist(at);
    }
    (Producer(ring.clone()), Consumer { ring, read: 0, held: 0, copy: Vec::new() })
}

impl<M: Memory> Ring<M> {
    #[inline]
    fn slot(&self, index: u64) -> usize {
        HEAD + index as usize * self.stride
    }

    #[inline]
    fn after(&self, index: u64) -> u64 {
        if index + 1 == self.slots { 0 } else { index + 1 }
    }

    // The slides' `pmem_persist` of a position.
    #[inline]
    fn persist(&self, offset: usize) {
        self.memory.flush(offset..offset + 8);
        self.memory.sfence();
    }

    // A copy by non-temporal stores, in whole lines, without a fence.
    #[inline]
    fn stream(&self, to: usize, bytes: &[u8]) {
        let (lines, rest) = bytes.split_at(bytes.len() & !(LINE - 1));
        if !lines.is_empty() {
            self.memory.store_nt(to, lines);
        }
        if !rest.is_empty() {
            let mut line = [0; LINE];
            line[..rest.len()].copy_from_slice(rest);
            self.memory.store_nt(to + lines.len(), &line);
        }
    }
}

impl Producer<Bare> {
    /// To push on another thread than the consumer's. `None` with [`Kind::Optimised`], where what
    /// is read there may still be the entry of a lap ago, and change.
    pub fn to_send(self) -> Option<Sent> {
        (self.0.kind != Kind::Optimised).then_some(Sent(self))
    }
}

impl<M: Memory> Producer<M> {
    /// Pushes an entry; false where the ring is full. What is durable on return the [`Kind`] says.
    ///
    /// # Panics
    /// If it has another length than this ring's entries.
    #[inline]
    pub fn try_push(&mut self, payload: &[u8]) -> bool {
        assert_eq!(payload.len(), self.0.entry, "bytes of an entry");
        match self.0.kind {
            Kind::Naive => self.naive(payload),
            Kind::Optimised => self.optimised(payload),
            Kind::Repaired => self.repaired(payload),
        }
    }

    fn naive(&mut self, payload: &[u8]) -> bool {
        let ring = &self.0;
        let write = ring.memory.load_u64(WRITE);
        let read = ring.memory.load_u64(READ);
        ring.memory.flush(WRITE..WRITE + 8);
        let next = ring.after(write);
        if next == read {
            return false;
        }
        let slot = ring.slot(write);
        ring.memory.store_u64(slot, payload.len() as u64);
        ring.memory.store(slot + 8, payload);
        ring.memory.flush(slot..slot + 8 + payload.len());
        ring.memory.store_u64(WRITE, next);
        ring.memory.flush(WRITE..WRITE + 8);
        true
    }

    fn optimised(&mut self, payload: &[u8]) -> bool {
        let ring = &self.0;
        let write = ring.memory.load_u64(WRITE);
        let read = ring.memory.load_u64(READ);
        ring.persist(WRITE);
        let next = ring.after(write);
        if next == read {
            return false;
        }
        ring.stream(ring.slot(write), payload);
        // Here a fence is missing: see `Kind::Optimised`.
        ring.memory.store_u64(WRITE, next);
        ring.persist(WRITE);
        true
    }

    fn repaired(&mut self, payload: &[u8]) -> bool {
        let ring = &self.0;
        let write = ring.memory.load_u64(WRITE);
        let next = ring.after(write);
        if next == ring.memory.load_u64(FREED) {
            return false;
        }
        ring.stream(ring.slot(write), payload);
        ring.memory.sfence();
        ring.memory.store_u64(WRITE, next);
        ring.persist(WRITE);
        true
    }
}

impl<M: Memory> Consumer<M> {
    /// Whether there is an entry to read.
    #[inline]
    pub fn has_entry(&self) -> bool {
        self.ring.memory.load_u64(WRITE) != self.read
    }

    /// The next entry, if there is one.
    #[inline]
    pub fn try_read(&mut self) -> Option<Entry<'_, M>> {
        if !self.has_entry() {
            return None;
        }
        let length = if self.ring.kind == Kind::Naive { 8 } else { 0 };
        let (at, len) = (self.ring.slot(self.read) + length, self.ring.entry);
        // SAFETY: only to learn whether bytes are lent; they are not looked at.
        if unsafe { self.ring.memory.bytes(at..at + len) }.is_none() {
            self.copy.resize(len, 0);
            self.ring.memory.load(at, &mut self.copy);
        }
        Some(Entry { consumer: self, at })
    }

    /// Gives the space of the next entry back without reading it; false where there is none.
    #[inline]
    pub fn skip(&mut self) -> bool {
        let there = self.has_entry();
        if there {
            self.pop();
        }
        there
    }

    // Gives the space of the entry that was read last back.
    #[inline]
    fn pop(&mut self) {
        let ring = &self.ring;
        self.read = ring.after(self.read);
        if ring.kind != Kind::Repaired {
            // Made durable by the producer, before it writes there again.
            return ring.memory.store_u64(READ, self.read);
        }
        self.held += 1;
        if self.held >= ring.slots.div_ceil(4) {
            ring.memory.store_u64(CURSOR, self.read);
            ring.persist(CURSOR);
            ring.memory.store_u64(FREED, self.read);
            self.held = 0;
        }
    }
}

impl<M: Memory> Entry<'_, M> {
    /// Gives its space back.
    #[inline]
    pub fn pop(self) {
        self.consumer.pop();
    }

    /// Changes a byte.
    #[cfg(test)]
    pub fn spoil(&mut self, at: usize) {
        let changed = !self[at];
        self.consumer.ring.memory.store(self.at + at, &[changed]);
    }
}

impl<M: Memory> Deref for Entry<'_, M> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        let (ring, copy) = (&self.consumer.ring, &self.consumer.copy);
        // SAFETY: as many bytes as entries have, behind the position that was read. The producer
        // leaves them alone until they are popped, which takes this, and is on this thread or
        // orders them before the position (`Producer::to_send`).
        unsafe { ring.memory.bytes(self.at..self.at + ring.entry) }.unwrap_or(copy)
    }
}

/// A region as the slides' rings write to it: by the instructions that their `libpmem` takes,
/// without a hint, and whatever the region is. What does not fill a line is not for its
/// non-temporal stores. Only a ring can have one, since any other holder could store to what the
/// ring lends.
#[derive(Clone)]
pub struct Bare {
    region: Arc<Region>,
    flush: Flush,
    width: Width,
    // Loads and stores are not atomic, and every holder may store.
    one_thread: PhantomData<*const ()>,
}

impl Bare {
    /// For a ring of this kind: the best flush instruction and the widest registers of the
    /// processor, `clflush` for the first of them.
    pub(super) fn new(region: Region, kind: Kind) -> Self {
        let best = Flush::GENTLEST_FIRST.into_iter().find(|flush| isa::supports(*flush));
        let flush = best.filter(|_| kind != Kind::Naive).unwrap_or(Flush::Clflush);
        Self { region: Arc::new(region), flush, width: Width::widest(), one_thread: PhantomData }
    }

    #[inline(always)]
    #[track_caller]
    fn at(&self, at: usize, len: usize) -> *mut u8 {
        let all = self.region.len();
        assert!(at <= all && len <= all - at, "{len} bytes at {at} of {all} are mapped");
        // SAFETY: inside the mapping, as just checked.
        unsafe { self.region.base().add(at) }
    }

    #[inline(always)]
    #[track_caller]
    fn word(&self, at: usize) -> &AtomicU64 {
        assert!(at.is_multiple_of(8), "{at} is not a multiple of 8");
        // SAFETY: mapped, aligned (the base is page-aligned), and any bytes are a number.
        unsafe { AtomicU64::from_ptr(self.at(at, 8).cast()) }
    }
}

impl Memory for Bare {
    #[inline(always)]
    fn len(&self) -> usize {
        self.region.len()
    }

    #[inline(always)]
    fn load(&self, at: usize, into: &mut [u8]) {
        let from = self.at(at, into.len());
        // SAFETY: mapped for that length, and a caller's buffer is never part of the mapping.
        unsafe { std::ptr::copy_nonoverlapping(from, into.as_mut_ptr(), into.len()) }
    }

    #[inline(always)]
    fn load_u64(&self, at: usize) -> u64 {
        self.word(at).load(Ordering::Acquire)
    }

    #[inline(always)]
    fn store(&self, at: usize, bytes: &[u8]) {
        let to = self.at(at, bytes.len());
        // SAFETY: as in `load`.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) }
    }

    #[inline(always)]
    fn store_u64(&self, at: usize, value: u64) {
        self.word(at).store(value, Ordering::Release);
    }

    #[inline(always)]
    fn store_nt(&self, at: usize, bytes: &[u8]) {
        let whole = at.is_multiple_of(LINE) && bytes.len().is_multiple_of(LINE);
        assert!(whole, "{} bytes at {at} are no lines", bytes.len());
        let to = self.at(at, bytes.len());
        // SAFETY: mapped for that length and aligned to a line; the width exists (`new`).
        unsafe { self.width.stream(to, bytes.as_ptr(), bytes.len() / LINE) }
    }

    #[inline(always)]
    fn flush(&self, range: Range<usize>) {
        let start = self.at(range.start, range.len());
        let lines = (range.start % LINE + range.len()).div_ceil(LINE);
        // SAFETY: every line overlaps the range, which is mapped; the processor has the instruction
        // (`new`).
        unsafe {
            self.flush.each((0..lines).map(|line| start.wrapping_add(line * LINE).cast_const()))
        }
    }

    #[inline(always)]
    fn sfence(&self) {
        isa::sfence();
    }

    #[inline(always)]
    fn mfence(&self) {
        isa::mfence();
    }

    #[inline(always)]
    fn compare_exchange_u64(&self, at: usize, current: u64, new: u64) -> Result<u64, u64> {
        self.word(at).compare_exchange(current, new, Ordering::SeqCst, Ordering::SeqCst)
    }

    fn verify(&self, pieces: [Range<usize>; 2], seed: u64, sum: u64) -> bool {
        self.verify_with("XXH3", pieces, &|bytes| checksum::of(bytes, seed) == sum)
    }

    #[inline(always)]
    unsafe fn bytes(&self, range: Range<usize>) -> Option<&[u8]> {
        let start = self.at(range.start, range.len());
        // SAFETY: mapped for that length; no code stores there meanwhile, by the caller's promise.
        Some(unsafe { std::slice::from_raw_parts(start, range.len()) })
    }
}
