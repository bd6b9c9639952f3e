//! What files are asked beyond the standard library: allocation, seals, statfs.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Bytes that this process may still allocate in the file's file system; `None` where it does not count,
/// as ramfs, which says that it has no blocks at all.
pub(super) fn free_bytes(file: &File) -> Option<u64> {
    // SAFETY: a zeroed statvfs is a valid out-parameter, and the descriptor is open.
    unsafe {
        let mut stat: libc::statvfs = std::mem::zeroed();
        let counted = libc::fstatvfs(file.as_raw_fd(), &mut stat) == 0 && stat.f_blocks > 0;
        counted.then(|| stat.f_bavail.saturating_mul(stat.f_frsize))
    }
}

/// The magic number of the file's file system, statfs(2).
pub(super) fn magic(file: &File) -> u64 {
    // SAFETY: a zeroed statfs is a valid out-parameter, and the descriptor is open.
    unsafe {
        let mut stat: libc::statfs = std::mem::zeroed();
        if libc::fstatfs(file.as_raw_fd(), &mut stat) == 0 { stat.f_type as u64 } else { 0 }
    }
}

/// The mount that the file was opened through, proc_pid_fdinfo(5).
pub(super) fn mount_id(file: &File) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", file.as_raw_fd())).ok()?;
    text.lines().find_map(|line| line.strip_prefix("mnt_id:"))?.trim().parse().ok()
}

/// Allocates the blocks of the first `len` bytes, so that a store cannot meet a full disk (SIGBUS). With
/// `keep_size` the file's length stays, else it is at least `len` afterwards.
pub(super) fn allocate(file: &File, len: usize, keep_size: bool) -> io::Result<()> {
    let len = libc::off_t::try_from(len).map_err(|_| io::Error::from_raw_os_error(libc::EFBIG))?;
    let mode = if keep_size { libc::FALLOC_FL_KEEP_SIZE } else { 0 };
    loop {
        // SAFETY: an open descriptor; no memory is touched.
        if unsafe { libc::fallocate(file.as_raw_fd(), mode, 0, len) } == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// A file in memory that can be sealed.
pub(super) fn memfd() -> io::Result<File> {
    // SAFETY: a terminated name and constant flags.
    let fd =
        unsafe { libc::memfd_create(c"ringfence".as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just opened and is owned by nobody else.
    Ok(unsafe { File::from_raw_fd(fd) })
}

/// Fixes the length of a memfd for good.
pub(super) fn seal_length(file: &File) -> io::Result<()> {
    let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
    // SAFETY: an open descriptor; no memory is touched.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) } == 0 {
        return Ok(());
    }
    Err(io::Error::last_os_error())
}

/// Why this process may not write to a path, if it may not.
pub(super) fn unwritable(path: &Path) -> Option<io::Error> {
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else {
        return Some(io::Error::from_raw_os_error(libc::EINVAL));
    };
    // SAFETY: a terminated path.
    let denied = unsafe { libc::faccessat(libc::AT_FDCWD, path.as_ptr(), libc::W_OK, libc::AT_EACCESS) } != 0;
    denied.then(io::Error::last_os_error)
}
