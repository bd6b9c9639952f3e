//! The I/O priority of threads (ioprio_set(2)), as the kernel writes it: a class in the upper three
//! bits, and a level in the lower thirteen.

use std::io;

use crate::raw;

/// None was set: the kernel takes the thread's niceness instead.
pub const NONE: u16 = 0;

/// That of a thread.
///
/// # Errors
/// The errno; `ESRCH` where it has ended.
pub fn of(thread: u32) -> io::Result<u16> {
    raw::io_priority(thread)
}

/// Gives a thread another one.
///
/// # Errors
/// The errno: `ESRCH` where it has ended, `EPERM` for threads of others and for the class
/// `real-time`.
pub fn set(thread: u32, priority: u16) -> io::Result<()> {
    raw::set_io_priority(thread, priority)
}
