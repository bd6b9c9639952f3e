//! Files in memory, which leave nothing behind.

use std::fs::File;
use std::io;

use rustix::fs::{MemfdFlags, memfd_create};

/// A file in memory, closed on exec: a program gets a duplicate.
///
/// # Errors
/// What the kernel reports.
pub fn in_memory(name: &str) -> io::Result<File> {
    Ok(memfd_create(name, MemfdFlags::CLOEXEC)?.into())
}
