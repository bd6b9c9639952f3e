//! Clocks, in ns.

use rustix::time::{ClockId, Timespec, clock_gettime};

/// `CLOCK_MONOTONIC`, in ns: the clock of all times of this crate.
pub fn now() -> u64 {
    read(ClockId::Monotonic)
}

/// What the calling thread has used of a processor, in ns.
pub fn thread_cpu() -> u64 {
    read(ClockId::ThreadCPUTime)
}

/// What `CLOCK_REALTIME` is ahead of `CLOCK_MONOTONIC` by, in ns, now. Both are slewed alike, so
/// this changes only when the clock is set.
///
/// Of a few readings the one between the two closest readings of the other clock counts; half the
/// distance between these is what it may be wrong by.
pub fn real_ahead() -> i64 {
    let sample = || {
        let (before, real, after) = (now(), read(ClockId::Realtime), now());
        (after - before, real as i64 - (before + (after - before) / 2) as i64)
    };
    (0..3).map(|_| sample()).min().map_or(0, |(_, ahead)| ahead)
}

fn read(clock: ClockId) -> u64 {
    nanoseconds(clock_gettime(clock))
}

fn nanoseconds(time: Timespec) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// A time span for the kernel.
pub fn timespec(ns: u64) -> Timespec {
    Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as _ }
}
