//! Why a dataset cannot be written or read.

use std::io;
use std::path::{Path, PathBuf};

use ringfence_experiment::Error;
use ringfence_machine::text::printable;

/// Why a dataset cannot be written or read, with what was tried and what to do.
#[derive(Debug, thiserror::Error)]
pub enum DatasetError {
    /// The folder named is not one that can be used: a usage error.
    #[error("{}: {problem}", path.display())]
    Usage {
        /// The folder.
        path: PathBuf,
        /// What is wrong with it, and the remedy.
        problem: String,
    },
    /// The system refused.
    #[error("cannot {tried} {}: {source}; {}", path.display(), remedy(tried, source))]
    Io {
        /// What was tried: a verb.
        tried: &'static str,
        /// On which file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A file of the dataset does not hold what it should.
    #[error("{}: {problem}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it, and the remedy.
        problem: String,
    },
}

impl DatasetError {
    /// Whether it is about a folder that cannot be used as asked, because it is damaged or of a
    /// newer program, too, rather than about something that went wrong while it was used.
    pub fn is_usage(&self) -> bool {
        use io::ErrorKind::{NotADirectory, NotFound, PermissionDenied, ReadOnlyFilesystem};
        match self {
            // The caller named the thing that does not hold what it should.
            Self::Usage { .. } | Self::Damaged { .. } => true,
            Self::Io { source, .. } => {
                matches!(
                    source.kind(),
                    NotFound | NotADirectory | PermissionDenied | ReadOnlyFilesystem
                )
            }
        }
    }

    /// For `map_err`: an error of the file system, with what was tried, such as `write`, and where.
    pub fn io(tried: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { tried, path: path.into(), source }
    }

    /// A folder that cannot be used as asked, and why.
    pub fn usage(path: &Path, problem: impl Into<String>) -> Self {
        Self::Usage { path: path.into(), problem: problem.into() }
    }

    /// A file that does not hold what it should.
    pub fn damaged(path: &Path, problem: impl Into<String>) -> Self {
        // It may quote what a damaged file says.
        Self::Damaged { path: path.into(), problem: printable(&problem.into()).into_owned() }
    }
}

impl From<DatasetError> for Error {
    fn from(error: DatasetError) -> Self {
        let is_usage = error.is_usage();
        Self::by(error, is_usage)
    }
}

fn remedy(tried: &str, error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "free some space, or name a folder on another file system"
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "name a folder where this user may do so"
        }
        io::ErrorKind::NotFound if tried == "make the folder" => "name a folder that can be made",
        io::ErrorKind::NotFound if ["write", "append to", "cut the end of"].contains(&tried) => {
            "the folder was removed or renamed during the measurement, and unwritten data are \
             lost: measure again, and keep the folder in its place until the end"
        }
        io::ErrorKind::NotFound => "copy the dataset's folder again, complete",
        io::ErrorKind::FileTooLarge => "raise the limit on the size of files (ulimit -f)",
        io::ErrorKind::InvalidData => "restore the original",
        _ => "check the file system (see dmesg), or name another folder",
    }
}
