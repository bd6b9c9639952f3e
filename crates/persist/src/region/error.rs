//! Why a region could not be mapped, and what to do about it.

use std::io;
use std::path::PathBuf;

/// Why a region could not be mapped.
#[derive(Debug, thiserror::Error)]
pub enum RegionError {
    /// The request makes no sense on any machine.
    #[error("{0}")]
    Request(String),
    /// A path is missing, in use, or of the wrong kind.
    #[error("{path}: {reason}", path = .path.display())]
    Path {
        /// The path as given.
        path: PathBuf,
        /// What is wrong with it and what to do.
        reason: String,
    },
    /// Too little room.
    #[error("{place} has {free} bytes free, {wanted} are needed: ask for a smaller size, or make room")]
    NoSpace {
        /// The file system or memory.
        place: String,
        /// Bytes free there.
        free: u64,
        /// Bytes asked for.
        wanted: u64,
    },
    /// The kernel refused.
    #[error("{what} failed: {source}; {remedy}")]
    Kernel {
        /// The call, with what it was for.
        what: String,
        /// What to do about it.
        remedy: String,
        /// The error number.
        source: io::Error,
    },
}

impl RegionError {
    /// Whether the request could not have worked on this machine as it is: a wrong path, too little
    /// room, no DAX, no huge pages, no such node. The opposite is a medium or a kernel that failed.
    pub fn is_usage(&self) -> bool {
        match self {
            RegionError::Kernel { source, .. } => matches!(
                source.raw_os_error(),
                Some(
                    libc::EOPNOTSUPP
                        | libc::EINVAL
                        | libc::ENODEV
                        | libc::ENOMEM
                        | libc::ENOSPC
                        | libc::EDQUOT
                        | libc::EFBIG
                        | libc::EPERM
                        | libc::EACCES
                )
            ),
            _ => true,
        }
    }
}

pub(super) fn kernel(what: String, remedy: &str) -> RegionError {
    RegionError::Kernel { what, remedy: remedy.into(), source: io::Error::last_os_error() }
}
