//! The operations that durable code is written in, as a trait: one implementation compiles to the
//! bare instructions ([`crate::Mapped`]), another records them and explores what a crash leaves
//! behind.
//!
//! Addresses are offsets in bytes from the start of the memory. A range that does not lie inside
//! it, or a misaligned address where alignment is required, is an error of the caller and panics,
//! as for a slice.
//!
//! What each operation promises is the architecture's (Intel SDM volume 3A, section 8.2, and volume
//! 2, "CLFLUSH", "CLFLUSHOPT", "CLWB", "SFENCE"; formally Px86, Raad et al., POPL 2020):
//!
//! - [`store`](Memory::store) and [`store_u64`](Memory::store_u64) reach memory line by line in the
//!   order of the program within a line, in any order between lines, at any time, and for certain
//!   only after [`flush`](Memory::flush) and then a fence;
//! - [`store_nt`](Memory::store_nt) reaches memory in aligned pieces of 8 bytes, in any order, and
//!   for certain only after a fence; until then it may not be read, nor overwritten by another kind
//!   of store;
//! - [`sfence`](Memory::sfence), [`mfence`](Memory::mfence) and the locked operations wait for
//!   both.

use std::io;
use std::ops::Range;

/// Memory that outlives a crash, and the instructions for it. See the [module](self) for the rules.
pub trait Memory {
    /// Bytes in all.
    fn len(&self) -> usize;

    /// Whether there is not a single byte.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reads bytes, in no particular order and not atomically.
    #[track_caller]
    fn load(&self, at: usize, into: &mut [u8]);

    /// Reads eight bytes at once; what was written before the value read ([`Memory::store_u64`]) is
    /// seen by later loads (acquire). `at` must be a multiple of 8.
    #[track_caller]
    fn load_u64(&self, at: usize) -> u64;

    /// Writes bytes by ordinary stores, from low addresses to high within each line.
    #[track_caller]
    fn store(&self, at: usize, bytes: &[u8]);

    /// Writes eight bytes by one ordinary store, never torn, after all ordinary stores before it
    /// (release). It is *not* ordered behind non-temporal stores: those want a fence first. `at`
    /// must be a multiple of 8.
    #[track_caller]
    fn store_u64(&self, at: usize, value: u64);

    /// Writes bytes by non-temporal stores. `at` and the length must be multiples of 8. A fence
    /// must come before any other access to these bytes, by this thread or another.
    #[track_caller]
    fn store_nt(&self, at: usize, bytes: &[u8]);

    /// Begins to write back every line that the range touches (`clwb`, `clflushopt` or `clflush`);
    /// done only after the next fence.
    #[track_caller]
    fn flush(&self, range: Range<usize>);

    /// A hint that the line at `at` is stored to soon, so that it may be fetched meanwhile.
    #[inline]
    fn prefetch(&self, at: usize) {
        _ = at;
    }

    /// Store fence: flushes and non-temporal stores before it are complete when it is passed.
    #[track_caller]
    fn sfence(&self);

    /// Full fence: as [`Memory::sfence`], and loads are ordered too.
    #[track_caller]
    fn mfence(&self);

    /// Replaces eight bytes if they are `current`, in one locked operation, which is a full fence
    /// too. `at` must be a multiple of 8.
    ///
    /// # Errors
    /// The value found, if it is another.
    #[track_caller]
    fn compare_exchange_u64(&self, at: usize, current: u64, new: u64) -> Result<u64, u64>;

    /// Whether the bytes of both ranges, one after the other, have this [`crate::checksum::of`]
    /// under `seed`; the second may be empty.
    ///
    /// An operation of its own, so that a checker can take it as ideal: true exactly where every
    /// byte comes from the stores that the checksum was made for.
    #[track_caller]
    fn verify(&self, pieces: [Range<usize>; 2], seed: u64, sum: u64) -> bool;

    /// As [`verify`](Memory::verify) for a checksum of the caller's own, so that existing formats
    /// can be checked: whether the bytes of both `pieces`, one after the other, are those that it
    /// was made for, as `fits` says of any bytes; the second may be empty. `name` is the checksum's
    /// name, for people: `"CRC-32C"`.
    ///
    /// `fits` must depend on the bytes alone: a checker calls it with several contents that memory
    /// may have. How often it is wrong, as a checksum of few bits is, is for the caller to know; a
    /// checker takes it as ideal.
    #[track_caller]
    fn verify_with(
        &self,
        name: &str,
        pieces: [Range<usize>; 2],
        fits: &dyn Fn(&[u8]) -> bool,
    ) -> bool {
        _ = name;
        let mut bytes = vec![0; pieces.iter().map(ExactSizeIterator::len).sum()];
        let mut rest = &mut bytes[..];
        for piece in &pieces {
            assert_in_order(piece);
            let (now, later) = rest.split_at_mut(piece.len());
            self.load(piece.start, now);
            rest = later;
        }
        fits(&bytes)
    }

    /// Whether every fence so far did what it says. The instructions cannot fail, but `msync` can,
    /// which stands behind the fence where memory is a file in the page cache.
    ///
    /// # Errors
    /// The first failure; it stays, since what was lost then is not known.
    fn health(&self) -> io::Result<()> {
        Ok(())
    }

    /// The bytes themselves, where this memory can lend them: only memory that safe code cannot
    /// store to in any other way than through `self` may.
    ///
    /// # Safety
    /// As long as the slice lives, no thread of this process or another may store to its bytes.
    unsafe fn bytes(&self, _range: Range<usize>) -> Option<&[u8]> {
        None
    }
}

/// For implementations: a range that ends before it begins is a fault of the caller, as for a
/// slice, and not an empty one.
///
/// # Panics
/// If it does.
#[inline]
#[track_caller]
pub fn assert_in_order(range: &Range<usize>) {
    assert!(
        range.start <= range.end,
        "the range {}..{} ends before it begins",
        range.start,
        range.end
    );
}

/// Borrowed memory is memory, but lends no bytes: a second borrower could store to them meanwhile.
impl<M: Memory> Memory for &M {
    fn len(&self) -> usize {
        (**self).len()
    }
    #[track_caller]
    fn load(&self, at: usize, into: &mut [u8]) {
        (**self).load(at, into);
    }
    #[track_caller]
    fn load_u64(&self, at: usize) -> u64 {
        (**self).load_u64(at)
    }
    #[track_caller]
    fn store(&self, at: usize, bytes: &[u8]) {
        (**self).store(at, bytes);
    }
    #[track_caller]
    fn store_u64(&self, at: usize, value: u64) {
        (**self).store_u64(at, value);
    }
    #[track_caller]
    fn store_nt(&self, at: usize, bytes: &[u8]) {
        (**self).store_nt(at, bytes);
    }
    #[track_caller]
    fn flush(&self, range: Range<usize>) {
        (**self).flush(range);
    }
    fn prefetch(&self, at: usize) {
        (**self).prefetch(at);
    }
    #[track_caller]
    fn sfence(&self) {
        (**self).sfence();
    }
    #[track_caller]
    fn mfence(&self) {
        (**self).mfence();
    }
    #[track_caller]
    fn compare_exchange_u64(&self, at: usize, current: u64, new: u64) -> Result<u64, u64> {
        (**self).compare_exchange_u64(at, current, new)
    }
    #[track_caller]
    fn verify(&self, pieces: [Range<usize>; 2], seed: u64, sum: u64) -> bool {
        (**self).verify(pieces, seed, sum)
    }
    #[track_caller]
    fn verify_with(
        &self,
        name: &str,
        pieces: [Range<usize>; 2],
        fits: &dyn Fn(&[u8]) -> bool,
    ) -> bool {
        (**self).verify_with(name, pieces, fits)
    }
    fn health(&self) -> io::Result<()> {
        (**self).health()
    }
}
