//! The parameters of a task that makes files and removes them.

use std::path::PathBuf;

use super::Commit;
use super::Settings;
use super::axes::axes;
use super::parameters::{FAST_COMMITS, FAST_DISK, Parameters};
use crate::units::Span;
use ringfence_machine::units::Bytes;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Creates a file in a folder of its own, writes a little, renames it and removes it. A unit is a
/// file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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

axes!(Churn: Churns, "churn" { dir: PathBuf, size: Bytes });

impl Parameters for Churn {
    fn unit(&self) -> &'static str {
        "files"
    }

    fn works_in(&self) -> Option<&Path> {
        Some(&self.dir)
    }
    fn with_folder(&self, dir: PathBuf) -> Option<Settings> {
        Some(Churns::default().dir(dir).into())
    }

    fn file_bytes_per_s(&self) -> Option<f64> {
        Some((self.size.0.max(4096) as f64 * FAST_COMMITS).min(FAST_DISK))
    }

    fn names_files_in(&self) -> Option<&Path> {
        Some(&self.dir)
    }
    fn least_window(&self) -> Option<Span> {
        Some(Commit::LEAST_WINDOW)
    }

    fn check(&self) -> Result<(), String> {
        match self.size <= Bytes::mib(1) {
            true => Ok(()),
            false => Err(format!(
                "size = {} is too large for a file of this task: at most 1MiB",
                self.size
            )),
        }
    }
}
