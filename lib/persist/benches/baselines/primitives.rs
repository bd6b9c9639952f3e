//! The bare loops: copy, flush or stream, and no fence. Written out here, with nothing of the
//! library but its one-instruction functions.

use ringfence_persist::{Flush, LINE, Width, isa};

/// Copies `len` bytes past the caches. No fence.
///
/// # Safety
/// Both ranges are mapped; `to` is aligned to 64 where `len` is a multiple of 64, else `to` and
/// `len` are multiples of 8; the width exists. [`ringfence_persist::isa::vzeroupper`] is left to
/// the caller.
#[inline(always)]
pub unsafe fn stream(to: *mut u8, from: *const u8, len: usize, width: Width) {
    // SAFETY: by the contract above.
    unsafe {
        if len < LINE {
            for at in (0..len).step_by(8) {
                isa::stream_u64(to.add(at), from.add(at).cast::<u64>().read_unaligned());
            }
            return;
        }
        match width {
            Width::Avx512 => lines(to, from, len, |to, from| isa::stream_avx512(to, from)),
            Width::Avx2 => lines(to, from, len, |to, from| isa::stream_avx2(to, from)),
            Width::Sse2 => lines(to, from, len, |to, from| isa::stream_sse2(to, from)),
        }
    }
}

/// Copies `len` bytes by ordinary stores. No flush.
///
/// # Safety
/// As [`stream`].
#[inline(always)]
pub unsafe fn copy(to: *mut u8, from: *const u8, len: usize, width: Width) {
    // SAFETY: by the contract of `stream`.
    unsafe {
        if len < LINE {
            for at in (0..len).step_by(8) {
                to.add(at)
                    .cast::<u64>()
                    .write_volatile(from.add(at).cast::<u64>().read_unaligned());
            }
            return;
        }
        match width {
            Width::Avx512 => lines(to, from, len, |to, from| isa::copy_avx512(to, from)),
            Width::Avx2 => lines(to, from, len, |to, from| isa::copy_avx2(to, from)),
            Width::Sse2 => lines(to, from, len, |to, from| isa::copy_sse2(to, from)),
        }
    }
}

/// Begins to write back the lines of a range that starts on a line, or lies inside one. No fence.
///
/// # Safety
/// The range is mapped, and the instruction exists.
#[inline(always)]
pub unsafe fn flush(start: *const u8, len: usize, flush: Flush) {
    for at in (0..len).step_by(LINE) {
        // SAFETY: by the contract above.
        unsafe {
            match flush {
                Flush::Clflush => isa::clflush(start.add(at)),
                Flush::Clflushopt => isa::clflushopt(start.add(at)),
                Flush::Clwb => isa::clwb(start.add(at)),
            }
        }
    }
}

#[inline(always)]
unsafe fn lines(to: *mut u8, from: *const u8, len: usize, line: impl Fn(*mut u8, *const u8)) {
    for at in (0..len).step_by(LINE) {
        line(to.wrapping_add(at), from.wrapping_add(at));
    }
}

/// Ends a stretch of wide registers.
pub fn end_of(width: Width) {
    if width != Width::Sse2 {
        // SAFETY: copies of this width were made, so that it exists.
        unsafe { isa::vzeroupper() }
    }
}
