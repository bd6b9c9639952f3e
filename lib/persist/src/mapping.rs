//! Mapped memory under the [`Memory`] trait: the bare instructions.

use std::cell::{Cell, RefCell};
use std::io;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::faults::planted;
use crate::memory::assert_in_order;
use crate::region::group::hull;
use crate::{Durability, Flush, LINE, Memory, Methods, Region, Width, checksum, isa};

/// A [`Region`] with the instructions that make stores to it durable.
///
/// It can be sent to another thread but not shared, since its loads and stores are not atomic.
///
/// Other processes may map the same file. What they may touch, and when, is between the processes:
/// as for every shared mapping a store of theirs to bytes that this process reads is a data race.
/// The ring keeps its two sides apart by locks and indices. If another process makes the file
/// shorter, this process ends with SIGBUS at the next access beyond its end.
#[derive(Debug)]
pub struct Mapped {
    region: Arc<Region>,
    // Where it begins in the region, in bytes.
    start: usize,
    base: *mut u8,
    len: usize,
    methods: Methods,
    // `None` where caches are part of the persistence domain (eADR): flushes are left out there,
    // fences stay.
    flush: Option<Flush>,
    // `mfence` stands for `sfence` where that does not wait for the flush.
    strong_fences: bool,
    writeback: Option<Writeback>,
    not_sync: PhantomData<Cell<()>>,
}

// SAFETY: the region lives as long as this does; nothing here belongs to a thread.
unsafe impl Send for Mapped {}

// A file in the page cache: a range, of offsets in the region, that is synced at the next fence.
// What that says the region keeps.
#[derive(Debug, Default)]
struct Writeback(RefCell<Option<Range<usize>>>);

impl Mapped {
    /// The region, with the methods of the processor, policy and environment ([`Methods::here`]).
    ///
    /// # Errors
    /// What [`Methods::here`] refuses.
    pub fn new(region: Region) -> Result<Self, crate::methods::MethodsError> {
        Ok(Self::with_methods(region, Methods::here()?))
    }

    /// The region, with methods of the caller's choice. Flushes are left out under eADR, and a file
    /// in the page cache is written back at each fence, by the call that they name.
    ///
    /// # Panics
    /// If the processor lacks the instruction or the registers.
    pub fn with_methods(region: Region, methods: Methods) -> Self {
        assert!(isa::supports(methods.flush), "the processor has no {}", methods.flush);
        assert!(isa::has_width(methods.width), "the processor has no {}", methods.width);
        Self::view(&Arc::new(region), methods)
    }

    // Another view of the same memory, for the other side of a ring.
    pub(crate) fn view(region: &Arc<Region>, methods: Methods) -> Self {
        let writeback = (region.durability() == Durability::PageCache).then(Writeback::default);
        let (base, len) = (region.base(), region.len());
        let flush = (!region.durability().elides_flushes()).then_some(methods.flush);
        let strong_fences = methods.flush == Flush::Clflush && !isa::sfence_orders_clflush();
        let region = region.clone();
        Self {
            region,
            start: 0,
            base,
            len,
            methods,
            flush,
            strong_fences,
            writeback,
            not_sync: PhantomData,
        }
    }

    /// Flushes by another instruction from here on.
    ///
    /// # Panics
    /// If the processor lacks it.
    pub fn flush_by(&mut self, flush: Flush) {
        assert!(isa::supports(flush), "the processor has no {flush}");
        // What waits to be written back goes on waiting.
        let other = Self::view(&self.region, Methods { flush, ..self.methods });
        let Self { start, base, len, .. } = *self;
        *self = Self { writeback: self.writeback.take(), start, base, len, ..other };
    }

    pub(crate) fn share(&self) -> Self {
        let Self { start, base, len, .. } = *self;
        Self { start, base, len, ..Self::view(&self.region, self.methods) }
    }

    /// Parts of it, of so many bytes each, one behind the other from its start, each from address
    /// 0: memory of its own for each of several threads. Where it is a file in the page cache they
    /// share its syncs: a fence of one covers what others wait for at that time
    /// ([`region::group`](crate::region::group)), so that several threads sync less often than each
    /// on a file of its own.
    ///
    /// # Panics
    /// If a length is no multiple of 64, or all together are more than there is.
    pub fn split(self, lens: &[usize]) -> Vec<Self> {
        let mut from = 0;
        let part = |len: &usize| {
            assert!(len.is_multiple_of(LINE), "a part of {len} bytes is no multiple of {LINE}");
            let part = Self {
                base: self.at(from, *len),
                start: self.start + from,
                len: *len,
                ..self.share()
            };
            from += len;
            part
        };
        lens.iter().map(part).collect()
    }

    /// The region.
    pub fn region(&self) -> &Region {
        &self.region
    }

    // Whatever shared it is gone.
    pub(crate) fn into_region(self) -> Region {
        Arc::into_inner(self.region).expect("it is not shared")
    }

    /// The instructions in use.
    pub fn methods(&self) -> Methods {
        self.methods
    }

    #[inline]
    #[track_caller]
    fn at(&self, at: usize, len: usize) -> *mut u8 {
        assert!(
            at <= self.len && len <= self.len - at,
            "{len} bytes at {at} of {} are mapped",
            self.len
        );
        // SAFETY: inside the mapping, as just checked.
        unsafe { self.base.add(at) }
    }

    #[inline]
    #[track_caller]
    fn word(&self, at: usize) -> &AtomicU64 {
        assert!(at.is_multiple_of(8), "{at} is not a multiple of 8");
        // SAFETY: mapped, aligned (the base is page-aligned), and any bytes are a number.
        unsafe { AtomicU64::from_ptr(self.at(at, 8).cast()) }
    }

    fn note(&self, range: Range<usize>) {
        if let Some(writeback) = &self.writeback {
            let range = self.start + range.start..self.start + range.end;
            writeback.0.replace_with(|noted| {
                Some(noted.take().map_or(range.clone(), |noted| hull(noted, range)))
            });
        }
    }

    #[inline]
    fn fence(&self, fence: impl FnOnce()) {
        if let Some(writeback) = &self.writeback {
            self.write_back(writeback);
        }
        fence();
    }

    // One call for all that was flushed since the last fence.
    #[cold]
    fn write_back(&self, writeback: &Writeback) {
        if let Some(range) = writeback.0.take() {
            // The region keeps the first failure, and `health` tells it.
            _ = self.region.sync(range, self.methods.sync);
        }
    }
}

impl Region {
    /// Gives every page back to the kernel: the next store to each is the first one again, with its
    /// page fault, allocation and zeroing. What the region held is lost.
    ///
    /// # Errors
    /// What the kernel reports; devices and some file systems cannot give pages back.
    ///
    /// # Safety
    /// No reference into the region may exist: its bytes change.
    pub unsafe fn discard(&self) -> io::Result<()> {
        self.give_back()
    }
}

impl Memory for Mapped {
    #[inline]
    fn len(&self) -> usize {
        self.len
    }

    #[inline]
    fn load(&self, at: usize, into: &mut [u8]) {
        let from = self.at(at, into.len());
        // SAFETY: mapped for that length, and a caller's buffer is never part of the mapping.
        unsafe { std::ptr::copy_nonoverlapping(from, into.as_mut_ptr(), into.len()) }
    }

    #[inline]
    fn load_u64(&self, at: usize) -> u64 {
        self.word(at).load(Ordering::Acquire)
    }

    #[inline]
    fn store(&self, at: usize, bytes: &[u8]) {
        let to = self.at(at, bytes.len());
        if bytes.len() <= ASKED {
            let lines = (at % LINE + bytes.len()).div_ceil(LINE);
            // SAFETY: a hint, for lines that the range touches.
            unsafe { (0..lines).for_each(|line| isa::prefetchw(to.wrapping_add(line * LINE))) }
        }
        // SAFETY: mapped for that length; the width exists (`with_methods`).
        unsafe { store(to, bytes, self.methods.width) }
    }

    #[inline]
    fn store_u64(&self, at: usize, value: u64) {
        self.word(at).store(value, Ordering::Release);
    }

    #[inline]
    fn store_nt(&self, at: usize, bytes: &[u8]) {
        assert!(
            at.is_multiple_of(8) && bytes.len().is_multiple_of(8),
            "{} bytes at {at}",
            bytes.len()
        );
        let to = self.at(at, bytes.len());
        if self.writeback.is_some() {
            if !planted("nt-not-noted") {
                self.note(at..at + bytes.len());
            }
            return self.store(at, bytes);
        }
        // SAFETY: mapped for that length, aligned to 8, whole words; the width exists
        // (`with_methods`).
        unsafe { stream(to, bytes, self.methods.width) }
    }

    #[inline]
    fn flush(&self, range: Range<usize>) {
        let start = self.at(range.start, range.len());
        if range.is_empty() {
            return assert_in_order(&range);
        }
        if self.writeback.is_some() {
            return self.note(range);
        }
        let lines = (range.end - 1) / LINE - range.start / LINE + 1;
        if let Some(flush) = self.flush {
            // SAFETY: every line overlaps the range, which is mapped; the instruction exists
            // (`with_methods`).
            unsafe { flush_lines(start, lines, flush) }
        }
    }

    #[inline]
    fn prefetch(&self, at: usize) {
        // SAFETY: inside the mapping, and a hint.
        unsafe { isa::prefetchw(self.at(at, 1)) }
    }

    #[inline]
    fn sfence(&self) {
        self.fence(if self.strong_fences { isa::mfence } else { isa::sfence });
    }

    #[inline]
    fn mfence(&self) {
        self.fence(isa::mfence);
    }

    #[inline]
    fn compare_exchange_u64(&self, at: usize, current: u64, new: u64) -> Result<u64, u64> {
        let word = self.word(at);
        let mut found = Ok(current);
        self.fence(|| {
            found = word.compare_exchange(current, new, Ordering::SeqCst, Ordering::SeqCst)
        });
        found
    }

    #[inline]
    fn verify(&self, pieces: [Range<usize>; 2], seed: u64, sum: u64) -> bool {
        pieces.iter().for_each(assert_in_order);
        // SAFETY: mapped for that length; nothing stores to bytes that are being verified, by the
        // contract of those that share the mapping.
        let bytes = |range: &Range<usize>| unsafe {
            std::slice::from_raw_parts(self.at(range.start, range.len()).cast_const(), range.len())
        };
        let [one, other] = &pieces;
        if other.is_empty() {
            return checksum::of(bytes(one), seed) == sum;
        }
        checksum::of_pieces([bytes(one), bytes(other)], seed) == sum
    }

    #[inline]
    fn verify_with(
        &self,
        _name: &str,
        pieces: [Range<usize>; 2],
        fits: &dyn Fn(&[u8]) -> bool,
    ) -> bool {
        pieces.iter().for_each(assert_in_order);
        // SAFETY: as in `verify`.
        let bytes = |range: &Range<usize>| unsafe {
            std::slice::from_raw_parts(self.at(range.start, range.len()).cast_const(), range.len())
        };
        let [one, other] = &pieces;
        if other.is_empty() {
            return fits(bytes(one));
        }
        fits(&[bytes(one), bytes(other)].concat())
    }

    #[inline]
    fn health(&self) -> io::Result<()> {
        match &self.writeback {
            None => Ok(()),
            Some(_) => self.region.health().map_err(io::Error::other),
        }
    }

    #[inline]
    unsafe fn bytes(&self, range: Range<usize>) -> Option<&[u8]> {
        let start = self.at(range.start, range.len());
        // SAFETY: mapped for that length; nothing stores there meanwhile, by the caller's promise.
        Some(unsafe { std::slice::from_raw_parts(start, range.len()) })
    }
}

// Stores up to so many bytes ask for their lines first: a store behind a fence fetches its line
// only when the fence is passed, and a prefetch is a hint that is tied to no fence (Intel SDM
// volume 2B, "PREFETCHW"). Longer ones gained nothing where it was measured
// (docs/evidence/performance.md).
const ASKED: usize = 1024;

// The loops below are functions of their own, which `scripts/check-loops` looks at.
unsafe fn flush_lines(start: *mut u8, lines: usize, flush: Flush) {
    // SAFETY: by the caller.
    unsafe { flush.each((0..lines).map(|line| start.wrapping_add(line * LINE).cast_const())) }
}

// Bytes before the next boundary of `unit`, a power of two.
#[inline(always)]
fn until_aligned(at: *const u8, unit: usize) -> usize {
    (at as usize).wrapping_neg() & (unit - 1)
}

unsafe fn stream(to: *mut u8, bytes: &[u8], width: Width) {
    let head = until_aligned(to, LINE).min(bytes.len());
    let lines = (bytes.len() - head) / LINE;
    let from = bytes.as_ptr();
    // SAFETY: every piece lies inside both ranges; heads and tails are whole words.
    unsafe {
        stream_words(to, from, head / 8);
        let (to, from) = (to.add(head), from.add(head));
        width.stream(to, from, lines);
        let tail = bytes.len() - head - lines * LINE;
        stream_words(to.add(lines * LINE), from.add(lines * LINE), tail / 8);
    }
}

#[inline(always)]
unsafe fn stream_words(to: *mut u8, from: *const u8, words: usize) {
    for word in 0..words {
        // SAFETY: inside both ranges, by the caller.
        unsafe {
            isa::stream_u64(to.add(word * 8), from.add(word * 8).cast::<u64>().read_unaligned())
        }
    }
}

// Upwards and by words, which a call of memcpy would not promise: a line reaches memory as a prefix
// of its stores.
unsafe fn store(to: *mut u8, bytes: &[u8], width: Width) {
    let from = bytes.as_ptr();
    let head = until_aligned(to, LINE).min(bytes.len());
    let lines = (bytes.len() - head) / LINE;
    // SAFETY: every piece lies inside both ranges.
    unsafe {
        store_part(to, from, head);
        let (to, from) = (to.add(head), from.add(head));
        width.copy(to, from, lines);
        let tail = bytes.len() - head - lines * LINE;
        store_part(to.add(lines * LINE), from.add(lines * LINE), tail);
    }
}

// Less than a line: bytes up to a word, words, bytes.
#[inline(always)]
unsafe fn store_part(to: *mut u8, from: *const u8, len: usize) {
    let head = until_aligned(to, 8).min(len);
    let words = (len - head) / 8;
    // SAFETY: inside both ranges, by the caller; words are aligned at `to`.
    unsafe {
        (0..head).for_each(|i| to.add(i).write_volatile(from.add(i).read()));
        let (to, from) = (to.add(head), from.add(head));
        for i in (0..words).map(|word| word * 8) {
            to.add(i).cast::<u64>().write_volatile(from.add(i).cast::<u64>().read_unaligned());
        }
        (words * 8..len - head).for_each(|i| to.add(i).write_volatile(from.add(i).read()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Request;

    fn memory(width: Width) -> Mapped {
        Mapped::with_methods(
            Region::map(&Request::dram(4096)).unwrap(),
            Methods { width, ..Methods::of_processor() },
        )
    }

    // Every start and length around a few lines, by every width: those bytes and no others.
    #[test]
    fn stores_write_their_bytes_and_no_others() {
        let source: Vec<u8> = (0..600u32).map(|i| (i % 251) as u8 + 1).collect();
        for width in Width::ALL.into_iter().filter(|w| isa::has_width(*w)) {
            let memory = memory(width);
            for (at, len) in (0..130).flat_map(|at| (0..200).map(move |len| (at, len))) {
                let from = &source[len % 7..][..len];
                memory.store(at, from);
                memory.flush(at..at + len);
                memory.sfence();
                check(&memory, at, from);
                let (at, len) = (at * 8 % 512, len & !7);
                memory.store_nt(at, &from[..len]);
                memory.sfence();
                check(&memory, at, &from[..len]);
            }
        }
    }

    fn check(memory: &Mapped, at: usize, wanted: &[u8]) {
        let mut all = vec![0; 1024];
        memory.load(0, &mut all);
        assert_eq!(&all[at..at + wanted.len()], wanted, "at {at}");
        assert!(
            all[..at].iter().chain(&all[at + wanted.len()..]).all(|byte| *byte == 0),
            "beside {at}"
        );
        memory.store(at, &vec![0; wanted.len()]);
    }

    #[test]
    fn what_lies_outside_or_askew_panics() {
        let memory = memory(Width::Sse2);
        let end = memory.len();
        let cases: [&dyn Fn(); 12] = [
            &|| memory.store(end, &[1]),
            &|| memory.store(usize::MAX, &[1, 2]),
            &|| memory.store_nt(end - 8, &[0; 16]),
            &|| memory.store_nt(4, &[0; 8]),
            &|| memory.flush(end - 1..end + 1),
            &|| memory.store_u64(end - 4, 1),
            &|| _ = memory.load_u64(end),
            &|| _ = memory.verify([0..8, end..end + 1], 0, 0),
            &|| _ = memory.verify([0..8, backwards()], 0, 0),
            &|| _ = memory.verify_with("sum", [0..8, end..end + 1], &|_| true),
            &|| _ = memory.verify_with("sum", [0..8, backwards()], &|_| true),
            &|| memory.flush(backwards()),
        ];
        for (number, case) in cases.into_iter().enumerate() {
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(case));
            assert!(result.is_err(), "case {number}");
        }
    }

    fn backwards() -> Range<usize> {
        Range { start: 64, end: 8 }
    }

    #[test]
    fn words_checksums_and_exchanges() {
        let memory = memory(Width::widest());
        memory.store_u64(8, 7);
        assert_eq!(memory.compare_exchange_u64(8, 6, 9), Err(7));
        assert_eq!(memory.compare_exchange_u64(8, 7, 9), Ok(7));
        assert_eq!(memory.load_u64(8), 9);
        let sum = checksum::of(&[0, 0, 9], 3);
        assert!(memory.verify([6..9, 0..0], 3, sum) && memory.verify([6..8, 8..9], 3, sum));
        assert!(!memory.verify([6..9, 0..0], 4, sum));
        assert!(memory.verify_with("sum", [6..9, 0..0], &|bytes| bytes == [0, 0, 9]));
        assert!(memory.verify_with("sum", [8..9, 0..2], &|bytes| bytes == [9, 0, 0]));
        assert!(!memory.verify_with("sum", [0..0, 0..0], &|bytes| !bytes.is_empty()));
    }
}
