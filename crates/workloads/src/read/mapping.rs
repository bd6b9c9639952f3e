//! Mapped memory of one thread: mapped as it was asked for, once, and unmapped at the end.
//!
//! [`ringfence_persist::Region`] maps a file several times to find out what it is, and the kernel
//! fills a pseudo-locked region with zeros at every mmap (kernel, `pseudo_lock_dev_mmap`).

use std::cell::Cell;
use std::fs::File;
use std::io;

use rustix::mm::{MapFlags, ProtFlags, mlock, mmap, mmap_anonymous, munmap};

/// Memory that was mapped, and is unmapped at the end.
#[derive(Debug)]
pub struct Mapping {
    base: *mut u8,
    len: usize,
}

impl Mapping {
    /// Fresh memory of this process.
    pub fn anonymous(len: usize) -> io::Result<Self> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a fresh mapping at an address of the kernel's choice.
        let base = unsafe { mmap_anonymous(std::ptr::null_mut(), len, access, MapFlags::PRIVATE) }?;
        Ok(Self { base: base.cast(), len })
    }

    /// The first bytes of a file or device, shared; it stays open.
    pub fn shared(file: &File, len: usize) -> io::Result<Self> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: as above.
        let base = unsafe { mmap(std::ptr::null_mut(), len, access, MapFlags::SHARED, file, 0) }?;
        Ok(Self { base: base.cast(), len })
    }

    /// Locks it against being swapped out.
    pub fn lock(&self) -> io::Result<()> {
        // SAFETY: the range of the mapping.
        Ok(unsafe { mlock(self.base.cast(), self.len) }?)
    }

    /// Its bytes: the first is aligned to a page.
    pub fn bytes(&self) -> &[Cell<u8>] {
        // SAFETY: readable and writable as long as this lives, and no other thread has it, nor its
        // bytes.
        unsafe { std::slice::from_raw_parts(self.base.cast(), self.len) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: unmaps what was mapped, once.
        _ = unsafe { munmap(self.base.cast(), self.len) };
    }
}
