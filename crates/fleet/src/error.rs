//! Errors of file operations.

use std::io;
use std::path::Path;

use ringfence_dataset::DatasetError;
use ringfence_experiment::Error;
use ringfence_system::whole::WholeError;

/// For `map_err`: what was tried and the kernel's error; for a full disk, also what to do.
pub fn io(what: &str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    let begin = format!("cannot {what} {}", path.display());
    move |error| {
        let help = match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                "; free some space and try again: no existing file was changed"
            }
            _ => "",
        };
        Error::failed(format!("{begin}: {error}{help}")).because(error)
    }
}

/// The same for what a dataset's own code tried.
pub fn table(what: &str, path: &Path) -> impl FnOnce(DatasetError) -> Error {
    let failed = io(what, path);
    move |error| match error {
        DatasetError::Io { source, .. } => failed(source),
        other => other.into(),
    }
}

/// The same for a file that is written whole.
pub fn whole(path: &Path) -> impl FnOnce(WholeError) -> Error {
    let failed = io("write", path);
    move |error| failed(error.into_source())
}
