//! What neither the standard library nor `rustix` has: the time-stamp counter, affinities of any
//! number of CPUs (those of `rustix` end at 1024), and I/O priorities.

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
    let status =
        unsafe { libc::sched_setaffinity(thread, size_of_val(mask), mask.as_ptr().cast()) };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Sets the bits of the CPUs that the calling thread may run on, in a mask of zeros.
///
/// # Errors
/// The errno; `EINVAL` where there can be more CPUs than bits.
pub(crate) fn affinity(mask: &mut [u64]) -> io::Result<()> {
    // SAFETY: the kernel writes at most the given number of bytes to `mask`, and any bits are a
    // u64.
    let status = unsafe { libc::sched_getaffinity(0, size_of_val(mask), mask.as_mut_ptr().cast()) };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

// Of a single thread (IOPRIO_WHO_PROCESS in Linux's include/uapi/linux/ioprio.h); libc does not
// name it.
const THREAD: libc::c_int = 1;

/// The I/O priority of a thread (0: the caller).
///
/// # Errors
/// The errno.
pub(crate) fn io_priority(thread: u32) -> io::Result<u16> {
    // SAFETY: the call takes numbers alone.
    let got = unsafe { libc::syscall(libc::SYS_ioprio_get, THREAD, thread) };
    u16::try_from(got).map_err(|_| io::Error::last_os_error())
}

/// Gives a thread (0: the caller) an I/O priority.
///
/// # Errors
/// The errno.
pub(crate) fn set_io_priority(thread: u32, priority: u16) -> io::Result<()> {
    // SAFETY: the call takes numbers alone.
    let status =
        unsafe { libc::syscall(libc::SYS_ioprio_set, THREAD, thread, libc::c_int::from(priority)) };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
