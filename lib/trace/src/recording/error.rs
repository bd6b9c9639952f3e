//! What can go wrong with a recording.

use std::io;
use std::path::{Path, PathBuf};

/// Why a recording cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// The system refused.
    #[error("cannot {what} {}: {source}", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// With which file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The folder for a new recording holds something.
    #[error("{} is not empty: name a folder that does not exist yet", path.display())]
    NotEmpty {
        /// Which.
        path: PathBuf,
    },
    /// A folder that holds no recording.
    #[error("{} is not a trace: it has no {}", path.display(), super::MANIFEST)]
    NotATrace {
        /// Which.
        path: PathBuf,
    },
    /// A later version of the program wrote it.
    #[error(
        "{} is in version {schema} of the format, and this program reads versions up to {}: use a \
         newer ringfence",
        path.display(),
        super::SCHEMA
    )]
    Newer {
        /// Which file says so.
        path: PathBuf,
        /// The version of its format.
        schema: u32,
    },
    /// It is not what was written.
    #[error("{} is damaged ({problem}): restore the original", path.display())]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// The program that writes it passed something that it cannot hold.
    #[error("this cannot be recorded: {0}")]
    Refused(String),
}

pub(super) fn io(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> RecordingError {
    let path = path.to_owned();
    move |source| RecordingError::Io { what, path, source }
}

pub(super) fn damaged(path: &Path, problem: impl ToString) -> RecordingError {
    RecordingError::Damaged { path: path.into(), problem: problem.to_string() }
}
