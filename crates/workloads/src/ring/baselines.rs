//! The ring buffers of the slides that our ring is measured against: Piotr Balcer, *Performance guidelines
//! for Intel Optane DC persistent memory*.
//!
//! They are baselines and no queues to use: entries of one length, no checksum, no recovery, and nothing
//! keeps a second producer out. Two of them are wrong, each [`Kind`] says how. Only what they need of
//! `libpmem` is written out, as it does it where AVX-512 is allowed (`PMEM_AVX512F=1`): `pmem_persist` is
//! the best flush instruction and an `sfence`, `pmem_memcpy` with `PMEM_F_MEM_NONTEMPORAL |
//! PMEM_F_MEM_NODRAIN` a copy by the widest non-temporal stores without a fence.
//!
//! Where the slides leave something out it is decided in the baselines' favour: slots begin at lines, a
//! last part of a line is padded and written as a whole one, any number of slots is possible (a comparison
//! where the slides mask).

use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ringfence_persist::Region;
use ringfence_persist::isa::{self, Flush, LINE, Width};

/// Which of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// "Ring buffer - first persistent implementation": the position is flushed, then the entry's length
    /// and bytes are stored and every line of them flushed, then the position is stored and flushed, all
    /// with `clflush`.
    ///
    /// Ordered, since `clflush` is ordered with stores and with other `clflush` (Intel SDM volume 2A,
    /// "CLFLUSH"), but nothing waits for the last one: durable soon after the push returns, not when.
    Naive,
    /// "Ring buffer - optimized persistent implementation": `pmem_persist` of the position, a
    /// non-temporal copy without a fence, a release store of the position, `pmem_persist` of it.
    ///
    /// **Wrong as published.** A release store is an ordinary one, and ordinary stores are not ordered
    /// behind earlier non-temporal ones (Intel SDM volume 1, section 10.4.6.2, "Caching of Temporal vs.
    /// Non-Temporal Data"): the position can be seen before the entry, so that a consumer on another core
    /// reads what the slot held a lap ago, and it can be durable before the entry, so that it is there
    /// after a crash and the entry is not. On the thread that pushed both are in order.
    Optimised,
    /// The same with a fence on each side of the position: the copy is fenced, then the position stored,
    /// flushed and fenced.
    ///
    /// The first `pmem_persist` is left out: it made the consumer's position durable before its space is
    /// written again. Here the consumer does so itself, for a quarter of the ring at a time, before the
    /// producer sees it; what producer and consumer write is on lines of its own. Two fences for each
    /// entry remain. An entry can be seen a moment before it is durable.
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
struct Ring {
    region: Arc<Region>,
    kind: Kind,
    entry: usize,
    stride: usize,
    slots: u64,
    flush: Flush,
    width: Width,
    // Both sides stay on one thread, but for `Producer::to_send`.
    one_thread: PhantomData<*const ()>,
}

/// The side that pushes.
pub struct Producer(Ring);

/// The side that pushes, on its way to another thread.
pub struct Sent(Producer);

// SAFETY: made of those kinds alone that order an entry before its position and a position before the entry that
// takes its place (`Producer::to_send`); positions are atomic, and nothing else is shared.
unsafe impl Send for Sent {}

impl Sent {
    /// On the thread that is to push.
    pub fn here(self) -> Producer {
        self.0
    }
}

/// The side that reads.
pub struct Consumer {
    ring: Ring,
    read: u64,
    // Slots read since the last time that they were given back.
    held: u64,
}

/// An entry where it lies.
pub struct Entry<'a> {
    consumer: &'a mut Consumer,
    at: *mut u8,
}

/// Makes an empty ring in a region, over whatever is there: entries of `entry` bytes in `size` bytes
/// behind a head of [`HEAD`]. Both sides are for this thread, but see [`Producer::to_send`].
///
/// # Panics
/// If the region is too small, an entry has no bytes, or fewer than two fit.
pub fn create(region: Region, kind: Kind, entry: usize, size: usize) -> (Producer, Consumer) {
    let length = if kind == Kind::Naive { 8 } else { 0 };
    let stride = (length + entry).next_multiple_of(LINE);
    let slots = (size / stride) as u64;
    assert!(entry > 0 && slots >= 2 && HEAD + size <= region.len(), "no ring of {entry} in {size} bytes");
    let best = Flush::GENTLEST_FIRST.into_iter().find(|flush| isa::supports(*flush));
    let (flush, width) = (best.unwrap_or(Flush::Clflush), Width::widest());
    let ring =
        Ring { region: Arc::new(region), kind, entry, stride, slots, flush, width, one_thread: PhantomData };
    for at in [WRITE, READ, CURSOR, FREED] {
        ring.word(at).store(0, Ordering::Relaxed);
        ring.persist(at);
    }
    (Producer(ring.clone()), Consumer { ring, read: 0, held: 0 })
}

impl Ring {
    #[inline]
    fn at(&self, offset: usize) -> *mut u8 {
        // SAFETY: every offset comes from a constant or a slot, both inside the region (`create`).
        unsafe { self.region.base().add(offset) }
    }

    #[inline]
    fn word(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: one of the constants above: mapped, aligned, used as an atomic number alone.
        unsafe { AtomicU64::from_ptr(self.at(offset).cast()) }
    }

    #[inline]
    fn slot(&self, index: u64) -> *mut u8 {
        self.at(HEAD + index as usize * self.stride)
    }

    #[inline]
    fn after(&self, index: u64) -> u64 {
        if index + 1 == self.slots { 0 } else { index + 1 }
    }

    // The slides' `pmem_persist` of a position.
    #[inline]
    fn persist(&self, offset: usize) {
        let line = self.at(offset);
        // SAFETY: mapped, and the instruction was looked for in `create`.
        unsafe { self.flush.function()(line) }
        isa::sfence();
    }

    #[inline]
    fn clflush(&self, from: *const u8, len: usize) {
        for line in 0..len.div_ceil(LINE) {
            // SAFETY: lines of a slot or of a position; every x86-64 processor has the instruction.
            unsafe { isa::clflush(from.add(line * LINE)) }
        }
    }
}

impl Producer {
    /// To push on another thread than the consumer's. `None` with [`Kind::Optimised`], where what is read there may
    /// still be the entry of a lap ago, and change.
    pub fn to_send(self) -> Option<Sent> {
        (self.0.kind != Kind::Optimised).then_some(Sent(self))
    }

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
        let write = ring.word(WRITE).load(Ordering::Relaxed);
        let read = ring.word(READ).load(Ordering::Acquire);
        ring.clflush(ring.at(WRITE), LINE);
        let next = ring.after(write);
        if next == read {
            return false;
        }
        let slot = ring.slot(write);
        // SAFETY: a slot has room for the length and the bytes, and it is the producer's while it lies
        // outside what the consumer may read.
        unsafe {
            slot.cast::<u64>().write(payload.len() as u64);
            std::ptr::copy_nonoverlapping(payload.as_ptr(), slot.add(8), payload.len());
        }
        ring.clflush(slot, 8 + payload.len());
        ring.word(WRITE).store(next, Ordering::Release);
        ring.clflush(ring.at(WRITE), LINE);
        true
    }

    fn optimised(&mut self, payload: &[u8]) -> bool {
        let ring = &self.0;
        let write = ring.word(WRITE).load(Ordering::Relaxed);
        let read = ring.word(READ).load(Ordering::Acquire);
        ring.persist(WRITE);
        let next = ring.after(write);
        if next == read {
            return false;
        }
        // SAFETY: as in `naive`; a slot is whole lines, and the width exists.
        unsafe { stream(ring.slot(write), payload, ring.width) };
        // Here a fence is missing: see `Kind::Optimised`.
        ring.word(WRITE).store(next, Ordering::Release);
        ring.persist(WRITE);
        true
    }

    fn repaired(&mut self, payload: &[u8]) -> bool {
        let ring = &self.0;
        let write = ring.word(WRITE).load(Ordering::Relaxed);
        let next = ring.after(write);
        if next == ring.word(FREED).load(Ordering::Acquire) {
            return false;
        }
        // SAFETY: as in `optimised`.
        unsafe { stream(ring.slot(write), payload, ring.width) };
        isa::sfence();
        ring.word(WRITE).store(next, Ordering::Release);
        ring.persist(WRITE);
        true
    }
}

impl Consumer {
    /// Whether there is an entry to read.
    #[inline]
    pub fn has_entry(&self) -> bool {
        self.ring.word(WRITE).load(Ordering::Acquire) != self.read
    }

    /// The next entry, if there is one.
    #[inline]
    pub fn try_read(&mut self) -> Option<Entry<'_>> {
        let length = if self.ring.kind == Kind::Naive { 8 } else { 0 };
        self.has_entry().then(|| {
            // SAFETY: the payload begins inside the slot.
            let at = unsafe { self.ring.slot(self.read).add(length) };
            Entry { consumer: self, at }
        })
    }

    // Gives the space of the entry that was read last back.
    #[inline]
    fn pop(&mut self) {
        let ring = &self.ring;
        self.read = ring.after(self.read);
        if ring.kind != Kind::Repaired {
            // Made durable by the producer, before it writes there again.
            return ring.word(READ).store(self.read, Ordering::Release);
        }
        self.held += 1;
        if self.held >= ring.slots.div_ceil(4) {
            ring.word(CURSOR).store(self.read, Ordering::Relaxed);
            ring.persist(CURSOR);
            ring.word(FREED).store(self.read, Ordering::Release);
            self.held = 0;
        }
    }
}

impl Entry<'_> {
    /// Gives its space back.
    #[inline]
    pub fn pop(self) {
        self.consumer.pop();
    }

    /// Changes a byte.
    #[cfg(test)]
    pub fn spoil(&mut self, at: usize) {
        assert!(at < self.consumer.ring.entry);
        // SAFETY: inside the entry, which is the consumer's until it is popped.
        unsafe { self.at.add(at).write(!self.at.add(at).read()) };
    }
}

impl Deref for Entry<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: as many bytes as entries have, behind the position that was read. The producer leaves them alone
        // until they are popped, which takes this, and is on this thread or orders them before the position
        // (`Producer::to_send`).
        unsafe { std::slice::from_raw_parts(self.at, self.consumer.ring.entry) }
    }
}

// A copy by non-temporal stores, in whole lines, without a fence.
//
// Safety: `to` is aligned to a line and mapped for the bytes in whole lines; the width exists.
#[inline]
unsafe fn stream(to: *mut u8, bytes: &[u8], width: Width) {
    let lines = bytes.len() / LINE;
    // SAFETY: line by line over both; no float is in a register between the statements.
    unsafe {
        let from = bytes.as_ptr();
        width.stream(to, from, lines);
        let rest = &bytes[lines * LINE..];
        if !rest.is_empty() {
            let mut line = [0; LINE];
            line[..rest.len()].copy_from_slice(rest);
            isa::stream_sse2(to.add(lines * LINE), line.as_ptr());
        }
    }
}
