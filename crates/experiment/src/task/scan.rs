//! The parameters of a reader of a file that is not in the page cache.

use std::path::PathBuf;

use ringfence_machine::units::Bytes;
use serde::{Deserialize, Serialize};

use super::Commit;
use super::Settings;
use super::axes::axes;
use super::dirty::blocks;
use super::parameters::Parameters;
use super::word::serde_as_word;
use crate::units::Rate;
use crate::units::Span;
use std::path::Path;

/// Reads blocks of a file of its own, from its start to its end and again, each from the device. A
/// unit is a byte.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Scan {
    /// The folder in whose file system the file lies. It has no name there, and is gone when the
    /// task is.
    pub dir: PathBuf,
    /// How blocks are read.
    pub io: ScanIo,
    /// Bytes that one call reads: 4 KiB to 16 MiB, a multiple of 4 KiB.
    pub block: Bytes,
    /// Bytes of the file, which is written when the task is started.
    pub size: Bytes,
    /// The most bytes per second; unlimited when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pace: Option<Rate>,
}

impl Default for Scan {
    fn default() -> Self {
        Self {
            dir: PathBuf::from("."),
            io: ScanIo::Buffered,
            block: Bytes::mib(1),
            size: Bytes::mib(256),
            pace: None,
        }
    }
}

/// How blocks are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScanIo {
    /// Through the page cache, from which each block is dropped once it is read.
    Buffered,
    /// `O_DIRECT`.
    Direct,
}

impl ScanIo {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Buffered, Self::Direct];

    /// Its word in a file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Buffered => "buffered",
            Self::Direct => "direct",
        }
    }
}

serde_as_word!(ScanIo);

axes!(Scan: Scans, "scan" {
    dir: PathBuf,
    io: ScanIo,
    block: Bytes,
    size: Bytes,
    pace: Option<Rate>,
});

impl Parameters for Scan {
    fn unit(&self) -> &'static str {
        "bytes"
    }

    fn bytes_per_unit(&self) -> Option<u64> {
        Some(1)
    }

    fn works_in(&self) -> Option<&Path> {
        Some(&self.dir)
    }
    fn with_folder(&self, dir: PathBuf) -> Option<Settings> {
        Some(Scans::default().dir(dir).into())
    }

    fn with_pace(&self, pace: Rate) -> Option<Settings> {
        Some(Scans::default().pace(Some(pace)).into())
    }

    fn least_window(&self) -> Option<Span> {
        Some(Commit::LEAST_WINDOW)
    }

    fn check(&self) -> Result<(), String> {
        blocks(self.block, Some(self.size))
    }
}
