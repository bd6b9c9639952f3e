//! File operations beyond the standard library: allocation, seals, statfs.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

use rustix::fs::{
    Access, AtFlags, CWD, FallocateFlags, MemfdFlags, SealFlags, accessat, fallocate,
    fcntl_add_seals, fstatfs, fstatvfs, memfd_create,
};
use rustix::io::{Errno, retry_on_intr};

/// Bytes that this process may still allocate in the file's file system; `None` where it does not
/// count, as ramfs, which says that it has no blocks at all.
pub(super) fn free_bytes(file: &File) -> Option<u64> {
    let stat = fstatvfs(file).ok().filter(|stat| stat.f_blocks > 0)?;
    Some(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// The magic number of the file's file system, statfs(2).
pub(super) fn magic(file: &File) -> u64 {
    fstatfs(file).map_or(0, |stat| stat.f_type as u64)
}

/// The mount that the file was opened through, proc_pid_fdinfo(5).
pub(super) fn mount_id(file: &File) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", file.as_raw_fd())).ok()?;
    text.lines().find_map(|line| line.strip_prefix("mnt_id:"))?.trim().parse().ok()
}

/// Allocates the blocks of the first `len` bytes, so that a store cannot meet a full disk (SIGBUS).
/// With `keep_size` the file's length stays, else it is at least `len` afterwards.
pub(super) fn allocate(file: &File, len: usize, keep_size: bool) -> io::Result<()> {
    // The kernel counts in signed numbers.
    let len = i64::try_from(len).map_err(|_| io::Error::from(Errno::FBIG))?.unsigned_abs();
    let mode = if keep_size { FallocateFlags::KEEP_SIZE } else { FallocateFlags::empty() };
    Ok(retry_on_intr(|| fallocate(file, mode, 0, len))?)
}

/// A file in memory that can be sealed.
pub(super) fn memfd() -> io::Result<File> {
    Ok(memfd_create(c"ringfence", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?.into())
}

/// Fixes the length of a memfd for good.
pub(super) fn seal_length(file: &File) -> io::Result<()> {
    Ok(fcntl_add_seals(file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?)
}

/// Why this process may not write to a path, if it may not.
pub(super) fn unwritable(path: &Path) -> Option<io::Error> {
    accessat(CWD, path, Access::WRITE_OK, AtFlags::EACCESS).err().map(io::Error::from)
}
