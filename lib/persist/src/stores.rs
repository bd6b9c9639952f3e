//! Stores with their state in their type: dirty, flushed, durable.
//!
//! ```
//! use ringfence_persist::{Durable, Lost, Mapped, Region, Request, Stores};
//!
//! let region = Region::map(&Request::dram(4096)).unwrap();
//! let mut stores = Stores::new(Mapped::new(region).unwrap());
//!
//! // One copy, durable on return, by whichever way is cheapest for its length.
//! let durable: Durable = stores.copy(0, b"an entry")?;
//!
//! // Several lines under one fence.
//! let (a, b) = (stores.store(64, b"one"), stores.store(128, b"other"));
//! let (a, b) = (stores.flush(a), stores.flush(b));
//! let durable = stores.fence([a, b])?;
//! assert_eq!(durable.bytes(), 8);
//! # Ok::<(), Lost>(())
//! ```
//!
//! What is stored and dropped without being flushed, or flushed without a fence, is a warning of
//! the compiler:
//!
//! ```compile_fail
//! # #![deny(unused_must_use)]
//! # use ringfence_persist::{Mapped, Region, Request, Stores};
//! # let region = Region::map(&Request::dram(4096)).unwrap();
//! # let mut stores = Stores::new(Mapped::new(region).unwrap());
//! stores.store(0, b"forgotten");
//! ```

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::faults::planted;
use crate::{LINE, Mapped, Memory, Methods};

/// A memory, written by one owner, whose stores are made durable.
#[derive(Debug)]
pub struct Stores<M> {
    memory: M,
    nt_threshold: usize,
    id: u64,
}

/// Stored by ordinary stores, and perhaps in a cache only: give it to [`Stores::flush`].
#[must_use = "what is stored but not flushed may be lost in a crash: give it to Stores::flush"]
#[derive(Debug)]
pub struct Dirty {
    range: Range<usize>,
    id: u64,
}

/// On its way to memory: give it to [`Stores::fence`].
#[must_use = "what is flushed but not fenced may be lost in a crash: give it to Stores::fence"]
#[derive(Debug)]
pub struct Flushed {
    bytes: usize,
    id: u64,
}

/// As durable as the region is ([`crate::Region`] says how much that is). Proof for callers that
/// ask for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Durable {
    bytes: usize,
}

impl Durable {
    /// How many bytes became so.
    pub fn bytes(self) -> usize {
        self.bytes
    }
}

/// What was written may not have reached the medium: the kernel could not write the page cache
/// back. It is not known which bytes are lost, so every later fence reports it too: open the file
/// again and recover.
#[derive(Debug, thiserror::Error)]
#[error(
    "writing back to the medium failed, and what was lost is not known ({0}); open it again and \
     recover"
)]
pub struct Lost(#[source] pub io::Error);

static NEXT: AtomicU64 = AtomicU64::new(0);

impl Stores<Mapped> {
    /// Over mapped memory, by its own methods.
    pub fn new(memory: Mapped) -> Self {
        let methods = memory.methods();
        Self::over(memory, methods)
    }
}

impl<M: Memory> Stores<M> {
    /// Over any memory; of the methods only the threshold counts here.
    pub fn over(memory: M, methods: Methods) -> Self {
        Self {
            memory,
            nt_threshold: methods.nt_threshold,
            id: NEXT.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// The memory below, for reading.
    pub fn memory(&self) -> &M {
        &self.memory
    }

    /// The memory below, back.
    pub fn into_memory(self) -> M {
        self.memory
    }

    /// Writes `bytes` at `at` by ordinary stores: visible to others at once, durable after
    /// [`flush`](Self::flush) and [`fence`](Self::fence).
    ///
    /// # Panics
    /// If the range does not lie inside the memory, as every operation here.
    #[track_caller]
    #[inline]
    pub fn store(&mut self, at: usize, bytes: &[u8]) -> Dirty {
        self.memory.store(at, bytes);
        Dirty { range: at..at + bytes.len(), id: self.id }
    }

    /// Begins to write back the lines of a store.
    ///
    /// # Panics
    /// If the store was made by another `Stores`.
    #[doc(alias = "pmem_flush")]
    #[track_caller]
    #[inline]
    pub fn flush(&mut self, dirty: Dirty) -> Flushed {
        assert_eq!(dirty.id, self.id, "stored by another Stores");
        self.memory.flush(dirty.range.clone());
        Flushed { bytes: dirty.range.len(), id: self.id }
    }

    /// Waits until everything flushed is durable: one fence for all.
    ///
    /// # Errors
    /// [`Lost`].
    ///
    /// # Panics
    /// If one of them was flushed by another `Stores`.
    #[doc(alias = "pmem_drain")]
    #[track_caller]
    #[inline]
    pub fn fence(&mut self, flushed: impl IntoIterator<Item = Flushed>) -> Result<Durable, Lost> {
        let mut bytes = 0;
        for flushed in flushed {
            assert_eq!(flushed.id, self.id, "flushed by another Stores");
            bytes += flushed.bytes;
        }
        self.drain(bytes)
    }

    /// Copies `bytes` to `at`, durable on return: below the threshold by ordinary stores and
    /// flushes, from it on by non-temporal stores (what does not fill a word of 8 bytes at either
    /// end is flushed), then one fence. Torn by a crash it may be: any of its words can be old or
    /// new.
    ///
    /// # Errors
    /// [`Lost`].
    #[doc(alias("pmem_memcpy_persist", "pmem_memmove_persist"))]
    #[track_caller]
    #[inline]
    pub fn copy(&mut self, at: usize, bytes: &[u8]) -> Result<Durable, Lost> {
        self.put(at, bytes);
        self.drain(bytes.len())
    }

    /// Fills `range` with `byte`, durable on return, by the same methods as [`copy`](Self::copy).
    ///
    /// # Errors
    /// [`Lost`].
    #[doc(alias = "pmem_memset_persist")]
    #[track_caller]
    pub fn fill(&mut self, range: Range<usize>, byte: u8) -> Result<Durable, Lost> {
        let piece = [byte; 4096];
        let mut at = range.start;
        while at < range.end {
            // To the next page, so that no line is written in two goes.
            let len = (4096 - at % 4096).min(range.end - at);
            if range.len() >= self.nt_threshold {
                put_nt(&self.memory, at, &piece[..len]);
            } else {
                put_flushed(&self.memory, at, &piece[..len]);
            }
            at += len;
        }
        self.drain(range.len())
    }

    /// Makes what was stored in `range` durable, whichever thread or process stored it: flush and
    /// fence.
    ///
    /// # Errors
    /// [`Lost`].
    #[doc(alias("pmem_persist", "pmem_deep_persist"))]
    #[track_caller]
    #[inline]
    pub fn persist(&mut self, range: Range<usize>) -> Result<Durable, Lost> {
        let bytes = range.len();
        if !planted("persist-not-flushed") {
            self.memory.flush(range);
        }
        self.drain(bytes)
    }

    /// Several copies under one fence, which comes when `copies` returns, also by a panic. In
    /// between nothing of this memory can be read, since a non-temporal store must be fenced before
    /// it is.
    ///
    /// # Errors
    /// [`Lost`].
    #[doc(alias = "pmem_memcpy_nodrain")]
    #[track_caller]
    #[inline]
    pub fn batch<T>(
        &mut self,
        copies: impl FnOnce(&mut Batch<'_, M>) -> T,
    ) -> Result<(T, Durable), Lost> {
        let mut batch = Batch { stores: self, bytes: 0 };
        let value = copies(&mut batch);
        let bytes = batch.bytes;
        drop(batch);
        self.memory.health().map_err(Lost)?;
        Ok((value, Durable { bytes }))
    }

    /// Publishes eight bytes at once, durable on return and never torn: whatever was durable before
    /// it is there when the new value is. For everything stored before and not yet fenced it
    /// promises nothing.
    ///
    /// Source: aligned quadwords are written atomically (Intel SDM volume 3A, section 8.1.1), and
    /// reach memory so (section "Persistent memory" of SNIA's programming model; Px86 takes it as
    /// given).
    ///
    /// # Errors
    /// [`Lost`].
    ///
    /// # Panics
    /// If `at` is not a multiple of 8.
    #[track_caller]
    #[inline]
    pub fn publish(&mut self, at: usize, value: u64) -> Result<Durable, Lost> {
        self.memory.store_u64(at, value);
        self.persist(at..at + 8)
    }

    /// Publishes up to 56 bytes with their flag in one line under one fence: payload at `at`, then
    /// the flag in the line's last word. After a crash the payload is there if the new flag is.
    ///
    /// It rests on one line's ordinary stores reaching memory in their order (Px86's prefix rule,
    /// Raad et al., POPL 2020, after the SDM's "a line is written back as a whole"), so neither is
    /// non-temporal.
    ///
    /// # Errors
    /// [`Lost`].
    ///
    /// # Panics
    /// If `at` is not a multiple of 64, or the payload longer than 56 bytes.
    #[track_caller]
    #[inline]
    pub fn publish_line(&mut self, at: usize, payload: &[u8], flag: u64) -> Result<Durable, Lost> {
        assert!(at.is_multiple_of(LINE), "{at} is not a multiple of {LINE}");
        assert!(
            payload.len() <= LINE - 8,
            "{} bytes and a flag do not fit into a line",
            payload.len()
        );
        if !planted("flag-before-payload") {
            self.memory.store(at, payload);
        }
        self.memory.store_u64(at + LINE - 8, flag);
        if planted("flag-before-payload") {
            self.memory.store(at, payload);
        }
        self.persist(at..at + LINE)
    }

    #[track_caller]
    #[inline]
    fn put(&self, at: usize, bytes: &[u8]) {
        if bytes.len() >= self.nt_threshold {
            put_nt(&self.memory, at, bytes);
        } else {
            put_flushed(&self.memory, at, bytes);
        }
    }

    #[track_caller]
    #[inline]
    fn drain(&self, bytes: usize) -> Result<Durable, Lost> {
        if !planted("copy-not-fenced") {
            self.memory.sfence();
        }
        self.memory.health().map_err(Lost)?;
        Ok(Durable { bytes })
    }
}

#[track_caller]
#[inline]
fn put_flushed<M: Memory>(memory: &M, at: usize, bytes: &[u8]) {
    memory.store(at, bytes);
    if !planted("copy-not-flushed") {
        memory.flush(at..at + bytes.len());
    }
}

// Whole words past the caches. What is left at either end shares its word, but not its bytes, with
// them.
#[track_caller]
#[inline]
fn put_nt<M: Memory>(memory: &M, at: usize, bytes: &[u8]) {
    let head = (at.wrapping_neg() & 7).min(bytes.len());
    let (head, rest) = bytes.split_at(head);
    let (words, tail) = rest.split_at(rest.len() & !7);
    let (start, end) = (at + head.len(), at + head.len() + words.len());
    if !head.is_empty() {
        put_flushed(memory, at, head);
    }
    if !words.is_empty() {
        memory.store_nt(start, words);
    }
    if !tail.is_empty() {
        put_flushed(memory, end, tail);
    }
}

/// Copies that share a fence; see [`Stores::batch`].
#[derive(Debug)]
pub struct Batch<'s, M: Memory> {
    stores: &'s mut Stores<M>,
    bytes: usize,
}

impl<M: Memory> Batch<'_, M> {
    /// Copies `bytes` to `at`; durable when the batch ends. Ranges of one batch must not overlap in
    /// a word of 8 bytes: which of two unfenced stores reaches memory last is open.
    ///
    /// # Panics
    /// If the range does not lie inside the memory.
    #[track_caller]
    #[inline]
    pub fn copy(&mut self, at: usize, bytes: &[u8]) {
        self.stores.put(at, bytes);
        self.bytes += bytes.len();
    }
}

impl<M: Memory> Drop for Batch<'_, M> {
    #[inline]
    fn drop(&mut self) {
        if !planted("batch-not-fenced") {
            self.stores.memory.sfence();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Region, Request};

    fn stores(nt_threshold: usize) -> Stores<Mapped> {
        let methods = Methods { nt_threshold, ..Methods::of_processor() };
        Stores::new(Mapped::with_methods(Region::map(&Request::dram(16384)).unwrap(), methods))
    }

    fn all(stores: &Stores<Mapped>) -> Vec<u8> {
        let mut all = vec![0; stores.memory().len()];
        stores.memory().load(0, &mut all);
        all
    }

    #[test]
    fn copies_and_fills_of_every_kind_write_their_bytes_and_no_others() {
        let source: Vec<u8> = (0..10_000u32).map(|i| (i % 255) as u8 + 1).collect();
        for threshold in [0, 64, usize::MAX] {
            let mut stores = stores(threshold);
            for (at, len) in
                [(0, 0), (0, 1), (3, 4), (7, 9), (5, 64), (64, 64), (61, 300), (4090, 9000)]
            {
                let durable = stores.copy(at, &source[..len]).unwrap();
                assert_eq!(durable.bytes(), len);
                let now = all(&stores);
                assert_eq!(
                    now[at..at + len],
                    source[..len],
                    "threshold {threshold}, {len} at {at}"
                );
                assert!(now[..at].iter().chain(&now[at + len..]).all(|byte| *byte == 0));
                assert_eq!(stores.fill(at..at + len, 9).unwrap().bytes(), len);
                let now = all(&stores);
                assert!(now[at..at + len].iter().all(|byte| *byte == 9));
                assert!(now[..at].iter().chain(&now[at + len..]).all(|byte| *byte == 0));
                stores.fill(0..16384, 0).unwrap();
            }
        }
    }

    #[test]
    fn one_fence_serves_many() {
        let mut stores = stores(64);
        let dirty = [stores.store(0, b"a"), stores.store(100, b"bc")];
        let flushed = dirty.map(|dirty| stores.flush(dirty));
        assert_eq!(stores.fence(flushed).unwrap().bytes(), 3);
        let ((), durable) = stores
            .batch(|batch| {
                batch.copy(200, &[1; 10]);
                batch.copy(256, &[2; 128]);
            })
            .unwrap();
        assert_eq!(durable.bytes(), 138);
        assert_eq!(all(&stores)[383], 2);
    }

    #[test]
    fn lines_and_words_are_published_where_they_belong() {
        let mut stores = stores(64);
        stores.publish(16, 0x0102).unwrap();
        stores.publish_line(128, &[3; 56], u64::MAX).unwrap();
        let now = all(&stores);
        assert_eq!((now[16], now[17]), (2, 1));
        assert_eq!((&now[128..184], &now[184..192]), (&[3; 56][..], &[255; 8][..]));
        let panics = |f: &mut dyn FnMut()| {
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)).is_err()
        };
        assert!(panics(&mut || _ = stores.publish_line(128, &[0; 57], 1)));
        assert!(panics(&mut || _ = stores.publish_line(130, &[0; 5], 1)));
        assert!(panics(&mut || _ = stores.publish(4, 1)));
        let mut other = self::stores(64);
        let dirty = other.store(0, b"x");
        assert!(panics(&mut || _ = stores.flush(Dirty { range: 0..1, id: dirty.id })));
        let flushed = other.flush(dirty);
        other.fence([flushed]).unwrap();
    }
}
