//! Memory by its lines: single instructions on them, timed reads, and a cycle of loads, each behind
//! a safe function, so that what measures with them needs no unsafe code.
//!
//! [`Scratch`] is memory that may be shared with other threads, a slice of cells memory that this
//! thread alone uses. Only that can be read by plain loads, which [`timed_read`] takes.

use std::arch::x86_64::__m128i;
use std::cell::Cell;
use std::io;
use std::ops::Range;
use std::slice;
use std::sync::atomic::AtomicU8;

use ringfence_machine::clock::Clock;
use ringfence_machine::probe;
use ringfence_persist::{Flush, LINE, Region, RegionError, isa};

/// Mapped memory that is written over, and whose bytes no other code lends out.
#[derive(Debug)]
pub struct Scratch(Region);

impl Scratch {
    /// Takes a region.
    pub fn new(region: Region) -> Self {
        Self(region)
    }

    /// The region, for its length, its durability and raw pointers into it.
    pub fn region(&self) -> &Region {
        &self.0
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[AtomicU8] {
        // SAFETY: mapped for as long as the region lives, and changed by atomic stores and assembly
        // alone: the region was handed over, so that no other code has references of another kind
        // to its bytes.
        unsafe { slice::from_raw_parts(self.0.base().cast(), self.0.len()) }
    }

    /// Its bytes line by line; without those behind the last whole one.
    pub fn lines(&self) -> &[[AtomicU8; LINE]] {
        self.bytes().as_chunks().0
    }

    /// Gives every page back to the kernel: see [`Region::discard`].
    ///
    /// # Errors
    /// What the kernel reports.
    pub fn discard(&self) -> io::Result<()> {
        // SAFETY: references into it are to atomic bytes, which may change.
        unsafe { self.0.discard() }
    }

    /// Waits until a range of bytes is on its medium: see [`Region::msync`].
    ///
    /// # Errors
    /// As there.
    pub fn msync(&self, range: Range<usize>) -> Result<(), RegionError> {
        self.0.msync(range)
    }
}

/// A flush instruction that this processor has.
#[derive(Debug, Clone, Copy)]
pub struct Flusher(Flush);

impl Flusher {
    /// `None` where this processor lacks it.
    pub fn new(flush: Flush) -> Option<Self> {
        isa::supports(flush).then_some(Self(flush))
    }

    /// The instruction.
    pub fn instruction(self) -> Flush {
        self.0
    }

    /// Flushes the line in which a value begins.
    #[inline(always)]
    pub fn flush<T>(self, at: &T) {
        // A reference to a value of no bytes may lead to nothing.
        const { assert!(size_of::<T>() > 0) };
        // SAFETY: the line is mapped, and the processor has the instruction.
        unsafe { self.0.function()(std::ptr::from_ref(at).cast()) }
    }

    /// Flushes the lines in which values begin, one after another, by a loop of this instruction's
    /// own.
    #[inline(always)]
    pub fn flush_each<'a, T: 'a>(self, all: impl Iterator<Item = &'a T>) {
        const { assert!(size_of::<T>() > 0) };
        // SAFETY: as above.
        unsafe { self.0.each(all.map(|at| std::ptr::from_ref(at).cast())) }
    }

    /// For the probes of reload latencies.
    pub fn for_probe(self) -> probe::Flush {
        // SAFETY: the processor has it, and it leaves memory's content alone.
        unsafe { probe::Flush::new(self.0.function()) }
    }
}

/// Asks for the line in which a value begins in a state in which it can be written.
#[inline(always)]
pub fn prefetch_to_write<T>(at: &T) {
    // SAFETY: a hint; it faults on no address.
    unsafe { isa::prefetchw(std::ptr::from_ref(at).cast()) }
}

/// As many bytes as a timed read loads at once.
pub type Piece = Cell<__m128i>;

/// Bytes of this thread as pieces; without those before the first and behind the last aligned one.
pub fn pieces(bytes: &[Cell<u8>]) -> &[Piece] {
    // SAFETY: a cell is as its content, and any bytes are a vector.
    unsafe { bytes.align_to().1 }
}

/// Ticks from before a read to after it. The clock's own reading waits for every load before it and
/// lets none after it begin earlier (`ringfence_machine::clock::tsc`). Loads of 16 bytes: where all
/// are of one line, one which is not cached is waited for once.
#[inline(always)]
pub fn timed_read(clock: &Clock, from: &[Piece]) -> u64 {
    let start = clock.now();
    for piece in from {
        // SAFETY: behind a reference. Volatile, so that the load stays where it is.
        unsafe { piece.as_ptr().read_volatile() };
    }
    clock.now() - start
}

/// Lines that each hold the address of another, and where one stands among them.
#[derive(Debug)]
pub struct Cycle {
    at: *const u8,
    // Keeps the lines mapped.
    _region: Region,
}

impl Cycle {
    /// Links the first lines of a region: the line at each place to the one that the order names
    /// there. One stands at the first line.
    ///
    /// # Panics
    /// If the region has not so many lines, or the order names another, or there are none.
    pub fn new(region: Region, order: &[u32]) -> Self {
        let base = region.base();
        assert!(!order.is_empty() && order.len() <= region.len() / LINE, "{} lines", order.len());
        for (line, next) in order.iter().enumerate() {
            let next = *next as usize;
            assert!(next < order.len(), "line {next} of {}", order.len());
            // SAFETY: both lines lie in the region, as just checked, and it is aligned.
            unsafe { base.add(line * LINE).cast::<*const u8>().write(base.add(next * LINE)) };
        }
        Self { at: base, _region: region }
    }

    /// Takes so many steps, each a load that waits for the one before.
    #[inline]
    pub fn follow(&mut self, steps: u64) {
        let mut at = self.at;
        for _ in 0..steps {
            // SAFETY: every line that can be reached holds the address of another (`new`), and no
            // other code has the region.
            at = unsafe { at.cast::<*const u8>().read() };
        }
        self.at = at;
    }

    /// The same, and tells the clock's ticks of each step.
    #[inline]
    pub fn follow_timed(&mut self, steps: u64, clock: &Clock, mut each: impl FnMut(u64)) {
        let mut at = self.at;
        for _ in 0..steps {
            let start = clock.now();
            // SAFETY: as in `follow`. Volatile, so that the load stays between the two readings of
            // the clock, which wait for it.
            at = unsafe { at.cast::<*const u8>().read_volatile() };
            each(clock.now() - start);
        }
        self.at = at;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringfence_persist::Request;
    use std::sync::atomic::Ordering::Relaxed;

    fn region() -> Region {
        Region::map(&Request::dram(4096)).unwrap()
    }

    #[test]
    fn flushes_and_prefetches_leave_the_bytes_alone() {
        let scratch = Scratch::new(region());
        for (number, byte) in scratch.bytes().iter().enumerate() {
            byte.store(number as u8, Relaxed);
        }
        scratch.lines().iter().for_each(prefetch_to_write);
        for flusher in Flush::ALL.into_iter().filter_map(Flusher::new) {
            assert!(isa::supports(flusher.instruction()));
            flusher.flush(&scratch.bytes()[70]);
            flusher.flush_each(scratch.lines().iter());
            isa::mfence();
        }
        assert_eq!(scratch.lines().len(), 64);
        assert!(
            scratch
                .bytes()
                .iter()
                .enumerate()
                .all(|(number, byte)| byte.load(Relaxed) == number as u8)
        );
        scratch.discard().unwrap();
        assert!(scratch.bytes().iter().all(|byte| byte.load(Relaxed) == 0));
    }

    #[test]
    fn pieces_are_whole_and_aligned() {
        let mut memory = [0u8; 100];
        let cells = Cell::from_mut(&mut memory[..]).as_slice_of_cells();
        let found = pieces(&cells[1..]);
        assert!(found.len() >= 5 && found.as_ptr().addr().is_multiple_of(16), "{}", found.len());
        assert!(timed_read(Clock::host(), found) < u64::MAX / 2);
    }

    #[test]
    fn a_cycle_comes_back_to_its_first_line() {
        let order: Vec<u32> = (1..64).chain([0]).collect();
        let mut cycle = Cycle::new(region(), &order);
        let first = cycle.at;
        cycle.follow(63);
        assert_eq!(cycle.at.addr() - first.addr(), 63 * LINE);
        let mut timed = 0;
        cycle.follow_timed(1, Clock::host(), |_| timed += 1);
        assert_eq!((cycle.at, timed), (first, 1));
    }

    #[test]
    fn a_cycle_leads_nowhere_else() {
        for order in [vec![], vec![1], vec![0; 65]] {
            let region = region();
            let made = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                Cycle::new(region, &order)
            }));
            assert!(made.is_err(), "{order:?}");
        }
    }
}
