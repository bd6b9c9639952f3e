//! What can fail.

use std::io;
use std::path::Path;

use ringfence_dataset::DatasetError;
use ringfence_system::whole::WholeError;

/// Why something was not done with a fleet.
#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    /// The request cannot be fulfilled.
    #[error("{0}")]
    Usage(String),
    /// It failed.
    #[error("{0}")]
    Failed(String),
}

impl FleetError {
    /// An error of a file operation: what was tried and the kernel's error; for a full disk, also
    /// what to do.
    pub(crate) fn io(what: &str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let begin = format!("cannot {what} {}", path.display());
        move |error| {
            let help = match error.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                    "; free some space and try again: no existing file was changed"
                }
                _ => "",
            };
            Self::Failed(format!("{begin}: {error}{help}"))
        }
    }

    /// The same for what a dataset's own code tried.
    pub(crate) fn table(what: &str, path: &Path) -> impl FnOnce(DatasetError) -> Self {
        let failed = Self::io(what, path);
        move |error| match error {
            DatasetError::Io { source, .. } => failed(source),
            other => other.into(),
        }
    }

    pub(crate) fn whole(path: &Path) -> impl FnOnce(WholeError) -> Self {
        let failed = Self::io("write", path);
        move |error| failed(error.into_source())
    }
}

impl From<DatasetError> for FleetError {
    fn from(error: DatasetError) -> Self {
        if error.is_usage() {
            Self::Usage(error.to_string())
        } else {
            Self::Failed(error.to_string())
        }
    }
}
