//! What neither the standard library nor `rustix` has: the time-stamp counter, and affinities of any number of CPUs
//! (those of `rustix` end at 1024).

use std::arch::x86_64::{_mm_lfence, _rdtsc};
use std::io;

/// The time-stamp counter, read once everything before has executed and before anything after
/// does (`lfence; rdtsc; lfence`, SDM vol. 2B, RDTSC). On AMD the kernel makes LFENCE
/// serialising in that sense since Linux 4.15.
#[inline]
pub fn tsc() -> u64 {
    // SAFETY: SSE2 and RDTSC are part of x86-64.
    unsafe {
        _mm_lfence();
        let ticks = _rdtsc();
        _mm_lfence();
        ticks
    }
}

/// Lets a thread (0: the caller) run on the CPUs alone whose bits are set, the lowest one first.
///
/// # Errors
/// The errno.
pub(crate) fn set_affinity(thread: i32, mask: &[u64]) -> io::Result<()> {
    // SAFETY: the kernel reads the given number of bytes from `mask`.
    let status = unsafe { libc::sched_setaffinity(thread, size_of_val(mask), mask.as_ptr().cast()) };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Sets the bits of the CPUs that the calling thread may run on, in a mask of zeros.
///
/// # Errors
/// The errno; `EINVAL` where there can be more CPUs than bits.
pub(crate) fn affinity(mask: &mut [u64]) -> io::Result<()> {
    // SAFETY: the kernel writes at most the given number of bytes to `mask`, and any bits are a u64.
    let status = unsafe { libc::sched_getaffinity(0, size_of_val(mask), mask.as_mut_ptr().cast()) };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
