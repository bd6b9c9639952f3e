//! The parameters of a task that makes files and removes them.

use std::path::PathBuf;

use ringfence_machine::units::Bytes;
use serde::{Deserialize, Serialize};

/// Creates a file in a folder of its own, writes a little, renames it and removes it. A unit is a
/// file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Churn {
    /// The folder in which it makes its own, which is removed when the task ends.
    pub dir: PathBuf,
    /// Bytes written to each file: 1 MiB at most.
    pub size: Bytes,
}

impl Default for Churn {
    fn default() -> Self {
        Self { dir: PathBuf::from("."), size: Bytes::kib(4) }
    }
}

impl Churn {
    /// As [`Task::check`](super::Task::check).
    ///
    /// # Errors
    /// One sentence with the remedy.
    pub fn check(&self) -> Result<(), String> {
        match self.size <= Bytes::mib(1) {
            true => Ok(()),
            false => Err(format!(
                "size = {} is too large for a file of this task: at most 1MiB",
                self.size
            )),
        }
    }
}
