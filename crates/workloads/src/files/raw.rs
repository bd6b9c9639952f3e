//! Calls that Rust cannot check: io_uring, mappings of a file, and `sync_file_range`.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;

use io_uring::{IoUring, opcode, squeue, types};
use rustix::io::ReadWriteFlags;
use rustix::mm::{MapFlags, MsyncFlags, ProtFlags};

/// `RWF_ATOMIC` of `pwritev2(2)`: Linux, include/uapi/linux/fs.h.
pub const RWF_ATOMIC: u32 = 0x40;
/// `RWF_DONTCACHE`, from there too.
pub const RWF_DONTCACHE: u32 = 0x80;

/// A ring for one write and one fdatasync at a time.
pub struct Ring(IoUring);

impl Ring {
    /// Asks the kernel for one.
    pub fn new() -> io::Result<Self> {
        IoUring::new(4).map(Self)
    }

    /// Writes all of the bytes at an offset and then syncs the file's data, by one call. Returns
    /// once both are done.
    pub fn write_and_sync(
        &mut self,
        file: BorrowedFd<'_>,
        bytes: &[u8],
        offset: u64,
        flags: ReadWriteFlags,
    ) -> io::Result<()> {
        let file = types::Fd(file.as_raw_fd());
        let len = u32::try_from(bytes.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        let write = opcode::Write::new(file, bytes.as_ptr(), len)
            .offset(offset)
            .rw_flags(flags.bits() as i32)
            .build()
            .flags(squeue::Flags::IO_LINK)
            .user_data(0);
        let sync = opcode::Fsync::new(file).flags(types::FsyncFlags::DATASYNC).build().user_data(1);
        // SAFETY: the bytes and the file are borrowed until both entries are completed below, or
        // until the ring fails, after which the kernel may go on reading the bytes, and does not
        // write to them.
        unsafe { self.0.submission().push_multiple(&[write, sync]) }.map_err(io::Error::other)?;
        let mut results = [None; 2];
        while results.iter().any(Option::is_none) {
            match self.0.submit_and_wait(1) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
            for entry in self.0.completion() {
                results[entry.user_data() as usize] = Some(entry.result());
            }
        }
        let of = |result: Option<i32>| match result.unwrap_or_default() {
            negative if negative < 0 => Err(io::Error::from_raw_os_error(-negative)),
            done => Ok(done as u32),
        };
        // Of a short write the kernel cancels what is linked to it.
        match (of(results[0])?, of(results[1])) {
            (written, _) if written < len => Err(io::ErrorKind::WriteZero.into()),
            (_, sync) => sync.map(drop),
        }
    }
}

/// A file's first bytes, mapped to be shared, readable and writable.
pub struct Map {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: no other code has its address, and any thread may do what it does to the memory behind
// it.
unsafe impl Send for Map {}

impl Map {
    /// Maps so many bytes of a file, which has them.
    pub fn new(file: BorrowedFd<'_>, len: usize) -> io::Result<Self> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, at an address of the kernel's choice.
        let base = unsafe {
            rustix::mm::mmap(std::ptr::null_mut(), len, access, MapFlags::SHARED, file, 0)
        }?;
        Ok(Self { base: NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?, len })
    }

    /// Stores bytes at an offset.
    pub fn store(&mut self, bytes: &[u8], offset: usize) {
        assert!(offset <= self.len && bytes.len() <= self.len - offset, "inside the mapping");
        // SAFETY: inside the mapping, which no other code knows of.
        unsafe {
            std::ptr::copy_nonoverlapping(
                bytes.as_ptr(),
                self.base.as_ptr().add(offset),
                bytes.len(),
            );
        }
    }

    /// `msync` of the pages that hold these bytes.
    pub fn sync(&mut self, offset: usize, len: usize) -> io::Result<()> {
        assert!(offset <= self.len && len <= self.len - offset, "inside the mapping");
        let page = rustix::param::page_size();
        let start = offset / page * page;
        // SAFETY: inside the mapping.
        unsafe {
            rustix::mm::msync(
                self.base.as_ptr().add(start).cast(),
                offset + len - start,
                MsyncFlags::SYNC,
            )
        }?;
        Ok(())
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own. Should it stay, the process's end takes it.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

/// `sync_file_range(2)`.
pub fn sync_file_range(file: BorrowedFd<'_>, offset: u64, len: u64, wait: bool) -> io::Result<()> {
    let waiting = libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    let flags = libc::SYNC_FILE_RANGE_WRITE | if wait { waiting } else { 0 };
    let (offset, len) = (offset.cast_signed(), len.cast_signed());
    // SAFETY: it touches no memory of this process.
    match unsafe { libc::sync_file_range(file.as_raw_fd(), offset, len, flags) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
