//! Who may write to a dataset: one program at a time.

use std::fs::{File, TryLockError};
use std::path::Path;

use super::error::DatasetError;

/// The right to write to a dataset's folder. The kernel takes it back when this is dropped, and when
/// the program ends, however it ends.
#[derive(Debug)]
pub struct Lock(#[allow(dead_code)] Option<File>);

impl Lock {
    /// Takes it, at once or not at all. A file system without locks has to do without.
    ///
    /// # Errors
    /// Where another program has it.
    pub fn take(dir: &Path) -> Result<Self, DatasetError> {
        // What is wrong with a folder that cannot be opened, whoever reads it says better.
        let Ok(folder) = File::open(dir) else { return Ok(Self(None)) };
        match folder.try_lock() {
            Err(TryLockError::WouldBlock) => {
                let problem = "this is still being measured by another program: wait until that ends";
                Err(DatasetError::usage(dir, problem))
            }
            Err(TryLockError::Error(_)) => Ok(Self(None)),
            Ok(()) => Ok(Self(Some(folder))),
        }
    }
}
