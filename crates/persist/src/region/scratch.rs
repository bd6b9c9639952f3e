//! Files and devices that the lab overwrites: unlinked while open, so that nothing is left of them.

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::RegionError;
use super::room::free_bytes;

// An unlinked file of `len` allocated bytes: in `path` where that is a directory, else under that
// name, which must be new. Somebody's file is never overwritten.
pub(super) fn scratch_file(path: &Path, len: usize) -> Result<File, RegionError> {
    let refuse = |reason: String| RegionError::Path { path: path.into(), reason };
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    let file = match std::fs::metadata(path) {
        Ok(meta) if meta.is_dir() => match options.custom_flags(libc::O_TMPFILE).mode(0o600).open(path) {
            Ok(file) => file,
            // Some file systems have no O_TMPFILE.
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => {
                create_unlinked(&path.join(format!(".ringfence-{}", std::process::id())))
                    .map_err(|error| refuse(format!("no file can be made there: {error}")))?
            }
            Err(error) => return Err(refuse(format!("no file can be made there: {error}"))),
        },
        Ok(_) => {
            return Err(refuse("exists already: name a directory, or a file that does not exist yet".into()));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => create_unlinked(path).map_err(|error| {
            refuse(format!("no file can be made there: {error}; name a directory that exists"))
        })?,
        Err(error) => return Err(refuse(error.to_string())),
    };
    let free = free_bytes(&file);
    if free.is_some_and(|free| free < len as u64) {
        let place = format!("the file system of {}", path.display());
        return Err(RegionError::NoSpace { place, free: free.unwrap_or(0), wanted: len as u64 });
    }
    // SAFETY: an open descriptor; allocates blocks so that a store cannot meet a full disk (SIGBUS).
    match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, len as libc::off_t) } {
        0 => Ok(file),
        errno => Err(RegionError::Kernel {
            what: format!("allocating {len} bytes in {}", path.display()),
            remedy: "ask for a smaller size, or make room".into(),
            source: io::Error::from_raw_os_error(errno),
        }),
    }
}

fn create_unlinked(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)?;
    std::fs::remove_file(path)?;
    Ok(file)
}

pub(super) fn open_devdax(path: &Path) -> Result<File, RegionError> {
    let refuse = |reason: &str| RegionError::Path { path: path.into(), reason: reason.into() };
    let text = CString::new(path.as_os_str().as_encoded_bytes()).map_err(|_| refuse("holds a zero byte"))?;
    // SAFETY: a terminated path and constant flags.
    let fd = unsafe { libc::open(text.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) };
    if fd < 0 {
        let error = io::Error::last_os_error();
        return Err(refuse(&format!("cannot be opened: {error}; 'ndctl list' shows devdax devices")));
    }
    // SAFETY: the descriptor was just opened and is owned by nobody else.
    let file = unsafe { File::from_raw_fd(fd) };
    let is_device = file.metadata().is_ok_and(|meta| {
        use std::os::unix::fs::FileTypeExt;
        meta.file_type().is_char_device()
    });
    if is_device { Ok(file) } else { Err(refuse("is no character device: devdax: wants /dev/daxX.Y")) }
}
