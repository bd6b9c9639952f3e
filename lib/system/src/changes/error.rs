//! Errors: the operation that failed, the kernel's error, and a remedy.

use std::io;
use std::path::{Path, PathBuf};

use crate::text::printable;

/// What is wrong with a journal, its folder or its lock.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The file cannot be used.
    #[error("{tried}: {source}; {remedy}")]
    Unusable {
        /// What was tried.
        tried: String,
        /// The errno.
        source: io::Error,
        /// What to do.
        remedy: String,
    },
    /// It holds what this program does not understand.
    #[error("{} holds '{}': {}", path.display(), printable(text), printable(why))]
    Content {
        /// The file.
        path: PathBuf,
        /// What it holds, shortened.
        text: String,
        /// What is wrong with it, and what to do.
        why: String,
    },
}

/// A failure with what to do about it, which the errno says.
pub fn failed(what: &str, path: &Path, source: io::Error) -> JournalError {
    let remedy = match source.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => {
            "run as root, or set XDG_RUNTIME_DIR to a folder that you can write to"
        }
        Some(libc::EROFS) => "that is mounted read-only: choose a writable folder",
        Some(libc::ENOSPC | libc::EDQUOT) => {
            "there is no room left: free some space there, or choose another folder"
        }
        Some(libc::EIO) => "the storage device reports errors: choose another folder",
        _ => "nothing was changed",
    };
    JournalError::Unusable {
        tried: format!("{what} {}", path.display()),
        source,
        remedy: remedy.into(),
    }
}

/// The reason why a change was not made, or not undone.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The journal.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The kernel refused.
    #[error("{}: {source}", printable(tried))]
    Refused {
        /// What was tried, such as `writing '50' to /sys/fs/cgroup/a/cpu.weight`.
        tried: String,
        /// The errno.
        source: io::Error,
    },
    /// The leftovers of a killed program cannot be restored.
    #[error(
        "the changes of '{}', which was killed, cannot be undone: {source}; 'ringfence restore' \
         tries again",
        printable(purpose)
    )]
    Leftover {
        /// What it was for.
        purpose: String,
        /// Why.
        source: Box<Error>,
    },
}

impl Error {
    pub(crate) fn refused(tried: String) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Refused { tried, source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_errno_says_what_to_do() {
        for (errno, part) in [
            (
                libc::ENOSPC,
                "No space left on device (os error 28); there is no room left: free some space \
                 there",
            ),
            (libc::EDQUOT, "there is no room left"),
            (libc::EROFS, "mounted read-only"),
            (libc::EACCES, "run as root"),
        ] {
            let error = failed("locking", Path::new("/a/b"), io::Error::from_raw_os_error(errno));
            let text = error.to_string();
            assert!(text.starts_with("locking /a/b: ") && text.contains(part), "{text}");
            assert_eq!(text.contains("root"), errno == libc::EACCES, "{text}");
        }
    }
}
