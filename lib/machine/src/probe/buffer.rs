//! The memory of the probes: loads that wait for each other, stores, and flushes.

use std::arch::x86_64::_mm_mfence;
use std::io;
use std::ptr::{self, NonNull};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use serde::{Deserialize, Serialize};

use super::ProbeError;

/// The line size of every x86-64 processor.
pub(super) const LINE: usize = 64;
const HUGE: usize = 2 << 20;

/// The pages of a probe's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Pages {
    /// 2 MiB each: a load waits for the cache, not for a page walk.
    Huge,
    /// 4 KiB each, as most programs have: beyond what the TLB reaches, page walks are part of the
    /// latency.
    Small,
}

/// A flush instruction on the line that an address is in.
#[derive(Debug, Clone, Copy)]
pub struct Flush(unsafe fn(*const u8));

impl Flush {
    /// The instruction that `flush` runs.
    ///
    /// # Safety
    /// This processor must have it, and `flush` must leave the content of memory alone. It may
    /// assume that the address points into writable memory of this process.
    pub const unsafe fn new(flush: unsafe fn(*const u8)) -> Self {
        Self(flush)
    }

    /// Which every x86-64 processor has.
    #[cfg(test)]
    pub(super) fn clflush() -> Self {
        // SAFETY: SSE2 is part of x86-64, and the instruction changes no content.
        unsafe { Self::new(|line| std::arch::x86_64::_mm_clflush(line)) }
    }
}

/// Private anonymous memory, aligned to 2 MiB, in pages of one size where the kernel grants them.
pub(super) struct Buffer {
    map: NonNull<u8>,
    map_len: usize,
    start: NonNull<u8>,
    len: usize,
    reserved: bool,
}

// SAFETY: the mapping belongs to this value alone, and no method shares it unsynchronised.
unsafe impl Send for Buffer {}

impl Buffer {
    /// Huge pages come from the pool if it has enough of them; otherwise transparent ones are
    /// requested from the kernel. [`Buffer::huge_bytes`] returns the result.
    pub(super) fn new(len: usize, pages: Pages) -> Result<Self, ProbeError> {
        // Whole huge pages, or the last part of the buffer would have small ones.
        let padded = len.next_multiple_of(HUGE);
        if pages == Pages::Huge
            && let Some(buffer) = Self::from_pool(len, padded)
        {
            return Ok(buffer);
        }
        let map_len = padded + HUGE;
        let map = map(map_len, MapFlags::empty()).map_err(|source| ProbeError::System {
            what: format!("map {map_len} bytes for a probe"),
            source,
        })?;
        // SAFETY: at most HUGE - 1 bytes further, and the mapping is HUGE longer than `padded`.
        let start = unsafe { map.add(map.as_ptr().align_offset(HUGE)) };
        let advice =
            if pages == Pages::Huge { Advice::LinuxHugepage } else { Advice::LinuxNoHugepage };
        // SAFETY: inside of the mapping. Refusal leaves the pages that the kernel chooses, which is
        // not an error.
        _ = unsafe { madvise(start.as_ptr().cast(), padded, advice) };
        // SAFETY: as above; the pages are touched so that no fault falls into a measurement.
        unsafe { ptr::write_bytes(start.as_ptr(), 0, len) };
        Ok(Self { map, map_len, start, len, reserved: false })
    }

    // Memory from the kernel's pool of 2 MiB pages; `None` where that has not enough.
    fn from_pool(len: usize, padded: usize) -> Option<Self> {
        let map = map(padded, MapFlags::HUGETLB | MapFlags::HUGE_2MB).ok()?;
        let buffer = Self { map, map_len: padded, start: map, len, reserved: true };
        // A limit of the cgroup is met at the first touch only, by SIGBUS; this says it by an errno
        // (madvise(2), Linux 5.14). Older kernels refuse, and the buffer is not used.
        // SAFETY: exactly the mapping; populating changes no content.
        let populated = unsafe { madvise(map.as_ptr().cast(), padded, Advice::LinuxPopulateWrite) };
        populated.is_ok().then_some(buffer)
    }

    /// Whether the memory came from the pool of huge pages (`MAP_HUGETLB`).
    pub(super) fn is_from_pool(&self) -> bool {
        self.reserved
    }

    pub(super) fn lines(&self) -> usize {
        self.len / LINE
    }

    pub(super) fn line(&self, index: usize) -> *mut u8 {
        assert!(index < self.lines());
        // SAFETY: inside of the mapping.
        unsafe { self.start.as_ptr().add(index * LINE) }
    }

    /// Writes `cycle` into the first lines: each holds the address of its successor.
    pub(super) fn link(&mut self, cycle: &[u32]) {
        for (line, &next) in cycle.iter().enumerate() {
            let (line, next) = (self.line(line), self.line(next as usize));
            // SAFETY: `line` is a line of the buffer, aligned for a pointer.
            unsafe { line.cast::<*mut u8>().write(next) };
        }
    }

    /// Follows the links from line 0 for `steps` loads, each waiting for the one before.
    pub(super) fn follow(&self, steps: usize) -> *const u8 {
        self.follow_from(self.line(0), steps)
    }

    /// Follows the links from `at`, which must be a line that [`Buffer::link`] wrote to.
    #[inline(never)]
    pub(super) fn follow_from(&self, at: *const u8, steps: usize) -> *const u8 {
        let (start, end) = (self.start.as_ptr() as usize, self.start.as_ptr() as usize + self.len);
        assert!((start..end).contains(&(at as usize)) && (at as usize).is_multiple_of(LINE));
        let mut at = at;
        for _ in 0..steps {
            // SAFETY: `link` made every line that can be reached hold the address of another.
            // Volatile, so that the loop stays one load per step.
            at = unsafe { at.cast::<*const u8>().read_volatile() };
        }
        at
    }

    /// Stores `value` to the second word of each line in `order` and flushes the line, then waits
    /// for all of it.
    ///
    /// The first word stays: it is the link.
    pub(super) fn store_and_flush(&self, order: &[u32], value: usize, flush: Option<Flush>) {
        for &line in order {
            let line = self.line(line as usize);
            // SAFETY: the second word of a line of the buffer. Volatile, since it is never read.
            unsafe { line.cast::<usize>().add(1).write_volatile(value) };
            if let Some(Flush(flush)) = flush {
                // SAFETY: `line` is writable memory of this process; the rest is promised by the
                // code that made the `Flush`.
                unsafe { flush(line) };
            }
        }
        // SAFETY: SSE2 is part of x86-64.
        unsafe { _mm_mfence() };
    }

    /// How many bytes the kernel backs by huge pages, from this mapping's `AnonHugePages` and
    /// `Private_Hugetlb` in `/proc/self/smaps`; `None` where it does not tell.
    pub(super) fn huge_bytes(&self) -> Option<u64> {
        let text = std::fs::read_to_string("/proc/self/smaps").ok()?;
        let (from, to) = (self.map.as_ptr() as usize, self.map.as_ptr() as usize + self.map_len);
        let mut inside = false;
        let mut sum = 0;
        for line in text.lines() {
            let range = line.split_once(' ').and_then(|(range, _)| range.split_once('-'));
            let bound = |text: &str| usize::from_str_radix(text, 16).ok();
            if let Some((first, last)) = range.and_then(|(a, b)| Some((bound(a)?, bound(b)?))) {
                inside = first < to && last > from;
            } else if inside {
                let huge = ["AnonHugePages", "Private_Hugetlb"]
                    .into_iter()
                    .find(|key| line.starts_with(key));
                sum += huge.map_or(Some(0), |key| crate::root::field_kib(line, key))?;
            }
        }
        // A neighbouring mapping with the same flags is merged with ours.
        Some(sum.min(self.len as u64))
    }
}

fn map(len: usize, flags: MapFlags) -> io::Result<NonNull<u8>> {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new anonymous mapping at an address that the kernel chooses.
    let map = unsafe { mmap_anonymous(ptr::null_mut(), len, access, MapFlags::PRIVATE | flags) }?;
    Ok(NonNull::new(map.cast::<u8>()).expect("the kernel never maps the null page here"))
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping that was made for it; nothing borrows it any more.
        _ = unsafe { munmap(self.map.as_ptr().cast(), self.map_len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::chase::{Random, single_cycle};

    #[test]
    fn the_buffer_holds_the_cycle() {
        let mut buffer = Buffer::new(100 * LINE, Pages::Huge).unwrap();
        assert_eq!(buffer.lines(), 100);
        buffer.link(&single_cycle(100, &mut Random(1)));
        assert_eq!(buffer.follow(100), buffer.line(0).cast_const());
        assert_ne!(buffer.follow(99), buffer.line(0).cast_const());
        assert_eq!(buffer.line(0) as usize % HUGE, 0);
        assert!(buffer.huge_bytes().is_none_or(|bytes| bytes <= 6400));
    }

    #[test]
    fn small_pages_are_small() {
        let buffer = Buffer::new(2 * HUGE, Pages::Small).unwrap();
        assert!(!buffer.is_from_pool());
        assert!(buffer.huge_bytes().is_none_or(|bytes| bytes == 0), "{:?}", buffer.huge_bytes());
    }
}
