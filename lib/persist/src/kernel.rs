//! The calls to the kernel that take `unsafe`: mapped address ranges, and locks on bytes of files.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use rustix::mm::{
    Advice, MapFlags, MsyncFlags, ProtFlags, madvise, mmap, mmap_anonymous, msync, munmap,
};

/// A range of mapped memory, unmapped when dropped.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: *mut u8,
    len: usize,
}

// SAFETY: a mapping is a plain range of memory, valid in every thread until it is dropped. Accesses
// to it go through raw pointers, whose users state their own synchronisation.
unsafe impl Send for Mapping {}
// SAFETY: as above; nothing here is changed through a shared reference.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// A private mapping of fresh memory; `flags` beside MAP_PRIVATE and MAP_ANONYMOUS.
    pub fn anonymous(len: usize, flags: MapFlags) -> io::Result<Self> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a fresh mapping at an address of the kernel's choice.
        let base = unsafe {
            mmap_anonymous(std::ptr::null_mut(), len, protection, MapFlags::PRIVATE | flags)
        }?;
        Ok(Self { base: base.cast(), len })
    }

    /// The first `len` bytes of a file, to read and write.
    pub fn of_file(file: &File, len: usize, flags: MapFlags) -> io::Result<Self> {
        Self::map(file, len, ProtFlags::READ | ProtFlags::WRITE, flags)
    }

    /// The same, to read: asks how a file can be mapped without touching it.
    pub fn readable(file: &File, len: usize, flags: MapFlags) -> io::Result<Self> {
        Self::map(file, len, ProtFlags::READ, flags)
    }

    fn map(file: &File, len: usize, protection: ProtFlags, flags: MapFlags) -> io::Result<Self> {
        // SAFETY: a fresh mapping at an address of the kernel's choice.
        let base = unsafe { mmap(std::ptr::null_mut(), len, protection, flags, file, 0) }?;
        Ok(Self { base: base.cast(), len })
    }

    pub fn base(&self) -> *mut u8 {
        self.base
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// madvise(2) of the whole range.
    pub fn advise(&self, advice: Advice) -> io::Result<()> {
        // SAFETY: the range is ours. Advice that drops contents leaves zeros, which a region may
        // hold.
        Ok(unsafe { madvise(self.base.cast(), self.len, advice) }?)
    }

    /// Makes every page present and writable.
    ///
    /// By a write fault, not a read fault: reading would map the shared zero page or leave file
    /// blocks unallocated, and the first store would then be timed with the fault. The kernel does
    /// it where it can (Linux 5.14), since it then reports what would have been SIGBUS.
    pub fn populate(&self) -> io::Result<()> {
        loop {
            match self.advise(Advice::LinuxPopulateWrite) {
                Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EINTR)) => {}
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => break,
                done => return done,
            }
        }
        for page in (0..self.len).step_by(4096) {
            // SAFETY: inside the mapping, which nothing else uses yet; an atomic, since another
            // process may have the file mapped.
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
        if bound == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// msync(MS_SYNC) of the pages that hold the range.
    pub fn msync(&self, start: usize, end: usize) -> io::Result<()> {
        assert!(start <= end && end <= self.len);
        let page = start & !4095;
        // SAFETY: the range lies inside the mapping.
        Ok(unsafe { msync(self.base.add(page).cast(), end - page, MsyncFlags::SYNC) }?)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: unmaps exactly what was mapped, once.
        _ = unsafe { munmap(self.base.cast(), self.len) };
    }
}

/// What is done to a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lock {
    /// Held by no other open file.
    Exclusive,
    /// Held by others that share it too.
    Shared,
    /// Given back.
    None,
}

/// Locks a byte of a file for its open file description (`F_OFD_SETLK` of fcntl(2)), which `rustix`
/// has not, and waits for it where that is asked for. Whether the lock was got.
///
/// # Errors
/// The errno; file systems may have no locks.
pub(crate) fn lock_byte(file: &File, byte: i64, kind: Lock, wait: bool) -> io::Result<bool> {
    // SAFETY: all zeros is a valid flock, and l_pid must be zero for these locks.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = match kind {
        Lock::Exclusive => libc::F_WRLCK,
        Lock::Shared => libc::F_RDLCK,
        Lock::None => libc::F_UNLCK,
    } as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    (lock.l_start, lock.l_len) = (byte, 1);
    let command = if wait { libc::F_OFD_SETLKW } else { libc::F_OFD_SETLK };
    loop {
        // SAFETY: an open descriptor and a lock that outlives the call.
        if unsafe { libc::fcntl(file.as_raw_fd(), command, &lock) } == 0 {
            return Ok(true);
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EINTR) => {}
            Some(libc::EAGAIN | libc::EACCES) => return Ok(false),
            _ => return Err(error),
        }
    }
}
