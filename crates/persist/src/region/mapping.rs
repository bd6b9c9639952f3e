//! Mapped address ranges: every call that maps, advises or synchronises memory.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// A range of mapped memory, unmapped when dropped.
#[derive(Debug)]
pub(super) struct Mapping {
    base: *mut u8,
    len: usize,
}

// SAFETY: a mapping is a plain range of memory, valid in every thread until it is dropped. Accesses to it
// go through raw pointers, whose users state their own synchronisation.
unsafe impl Send for Mapping {}
// SAFETY: as above; nothing here is changed through a shared reference.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// A private mapping of fresh memory; `flags` beside MAP_PRIVATE and MAP_ANONYMOUS.
    pub fn anonymous(len: usize, flags: libc::c_int) -> io::Result<Self> {
        Self::map(
            len,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | flags,
            -1,
        )
    }

    /// The first `len` bytes of a file, to read and write.
    pub fn of_file(file: &File, len: usize, flags: libc::c_int) -> io::Result<Self> {
        Self::map(len, libc::PROT_READ | libc::PROT_WRITE, flags, file.as_raw_fd())
    }

    /// The same, to read: asks how a file can be mapped without touching it.
    pub fn readable(file: &File, len: usize, flags: libc::c_int) -> io::Result<Self> {
        Self::map(len, libc::PROT_READ, flags, file.as_raw_fd())
    }

    fn map(len: usize, protection: libc::c_int, flags: libc::c_int, fd: libc::c_int) -> io::Result<Self> {
        // SAFETY: a fresh mapping at an address of the kernel's choice.
        let raw = unsafe { libc::mmap(std::ptr::null_mut(), len, protection, flags, fd, 0) };
        if raw == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { base: raw.cast(), len })
    }

    pub fn base(&self) -> *mut u8 {
        self.base
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// madvise(2) of the whole range.
    pub fn advise(&self, advice: libc::c_int) -> io::Result<()> {
        // SAFETY: the range is ours. Advice that drops contents leaves zeros, which a region may hold.
        status(unsafe { libc::madvise(self.base.cast(), self.len, advice) })
    }

    /// Makes every page present and writable.
    ///
    /// By a write fault, not a read fault: reading would map the shared zero page or leave file
    /// blocks unallocated, and the first store would then be timed with the fault. The kernel does it where
    /// it can (Linux 5.14), since it then reports what would have been SIGBUS.
    pub fn populate(&self) -> io::Result<()> {
        loop {
            match self.advise(libc::MADV_POPULATE_WRITE) {
                Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EINTR)) => {}
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => break,
                done => return done,
            }
        }
        for page in (0..self.len).step_by(4096) {
            // SAFETY: inside the mapping, which nobody else uses yet; an atomic, since another process may
            // have the file mapped.
            unsafe {
                let byte = std::sync::atomic::AtomicU8::from_ptr(self.base.add(page));
                byte.fetch_or(0, std::sync::atomic::Ordering::Relaxed);
            }
        }
        Ok(())
    }

    /// Binds the pages, none of them present yet, to NUMA node `node`, below 1024.
    pub fn bind(&self, node: u32) -> io::Result<()> {
        const MPOL_BIND: libc::c_int = 2;
        const MPOL_MF_STRICT: libc::c_uint = 1;
        let mut mask = [0u64; 16];
        mask[node as usize / 64] |= 1 << (node % 64);
        // SAFETY: the mask outlives the call and its length in bits is stated; the range is ours.
        let bound = unsafe {
            libc::syscall(
                libc::SYS_mbind,
                self.base,
                self.len,
                MPOL_BIND,
                mask.as_ptr(),
                mask.len() * 64,
                MPOL_MF_STRICT,
            )
        };
        status(bound as libc::c_int)
    }

    /// msync(MS_SYNC) of the pages that hold the range.
    pub fn msync(&self, start: usize, end: usize) -> io::Result<()> {
        assert!(start <= end && end <= self.len);
        let page = start & !4095;
        // SAFETY: the range lies inside the mapping.
        status(unsafe { libc::msync(self.base.add(page).cast(), end - page, libc::MS_SYNC) })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: unmaps exactly what was mapped, once.
        unsafe { libc::munmap(self.base.cast(), self.len) };
    }
}

fn status(status: libc::c_int) -> io::Result<()> {
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
