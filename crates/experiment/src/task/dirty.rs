//! The parameters of a writer to a file that is not synced block by block.

use std::path::PathBuf;

use ringfence_machine::units::Bytes;
use serde::{Deserialize, Serialize};

use super::Commit;
use super::Settings;
use super::axes::axes;
use super::parameters::{Parameters, paced};
use super::word::serde_as_word;
use crate::units::Rate;
use crate::units::Span;
use std::path::Path;

/// Writes blocks to a file of its own, from its start to its end and again. A unit is a byte.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Dirty {
    /// The folder in whose file system the file lies. It has no name there, and is gone when the
    /// task is.
    pub dir: PathBuf,
    /// How blocks are written, and what sees to it that they reach the device.
    pub io: DirtyIo,
    /// Bytes that one call writes: 4 KiB to 16 MiB, a multiple of 4 KiB.
    pub block: Bytes,
    /// Bytes of the file; absent: 256 MiB, and for `buffered` a quarter more than the kernel's
    /// background threshold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<Bytes>,
    /// The most bytes per second; unlimited when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pace: Option<Rate>,
    /// The most bytes to the device each time that it runs: in a window and the preparation before
    /// it.
    pub limit: Bytes,
}

impl Default for Dirty {
    fn default() -> Self {
        Self {
            dir: PathBuf::from("."),
            io: DirtyIo::Buffered,
            block: Bytes::mib(1),
            size: None,
            pace: None,
            limit: Bytes::mib(8 << 10),
        }
    }
}

/// How blocks are written, and what sees to it that they reach the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DirtyIo {
    /// Through the page cache, and left to the kernel.
    Buffered,
    /// The same, and `sync_file_range(2)` that waits for each block.
    Wait,
    /// The same, and `sync_file_range(2)` with `SYNC_FILE_RANGE_WRITE` alone, which starts writing
    /// and waits for nothing.
    Write,
    /// The same, and `fdatasync(2)` every 8 MiB.
    Fdatasync,
    /// `O_DIRECT`.
    Direct,
    /// `pwritev2(2)` with `RWF_DONTCACHE`, which starts writing, waits for nothing, and drops what
    /// is written.
    Dontcache,
}

impl DirtyIo {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Buffered, Self::Wait, Self::Write, Self::Fdatasync, Self::Direct, Self::Dontcache];

    /// Those that wait for the device: no more of theirs is under way than a few MiB.
    pub const WAITING: [Self; 3] = [Self::Wait, Self::Direct, Self::Fdatasync];

    /// Its word in a file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Buffered => "buffered",
            Self::Wait => "wait",
            Self::Write => "write",
            Self::Fdatasync => "fdatasync",
            Self::Direct => "direct",
            Self::Dontcache => "dontcache",
        }
    }
}

serde_as_word!(DirtyIo);

impl Dirty {
    /// The bytes between two calls of `fdatasync`.
    pub const SYNCED: u64 = 8 << 20;
}

/// Checks the blocks of a file that is gone through in order.
pub(super) fn blocks(block: Bytes, size: Option<Bytes>) -> Result<(), String> {
    let page = Bytes::kib(4);
    if block < page || block > Bytes::mib(16) || !block.0.is_multiple_of(page.0) {
        return Err(format!(
            "block = {block} is not a multiple of 4KiB between 4KiB and 16MiB: choose such a size"
        ));
    }
    match size {
        Some(size) if size < block => {
            Err(format!("size = {size} is smaller than block = {block}: make the file larger"))
        }
        _ => Ok(()),
    }
}

axes!(Dirty: Dirties, "dirty" {
    dir: PathBuf,
    io: DirtyIo,
    block: Bytes,
    size: Option<Bytes>,
    pace: Option<Rate>,
    limit: Bytes,
});

impl Parameters for Dirty {
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
        Some(Dirties::default().dir(dir).into())
    }

    fn file_bytes_per_s(&self) -> Option<f64> {
        Some(paced(self.pace))
    }

    fn with_pace(&self, pace: Rate) -> Option<Settings> {
        Some(Dirties::default().pace(Some(pace)).into())
    }

    fn least_window(&self) -> Option<Span> {
        Some(Commit::LEAST_WINDOW)
    }

    fn check(&self) -> Result<(), String> {
        blocks(self.block, self.size)?;
        if self.limit < self.block {
            return Err(format!(
                "limit = {} is less than a block of {}: raise it",
                self.limit, self.block
            ));
        }
        Ok(())
    }

    fn caution(&self) -> Option<String> {
        (self.io == DirtyIo::Buffered).then(|| {
            "The kernel writes back the data of dirty io=buffered once enough is dirty, or after \
             30 s, and for a while after the task has stopped. Windows end before that, and the \
             file is synced after each: these figures contain no delayed effects. 'ringfence \
             neighbours --episode' measures them."
                .into()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_makes_no_sense_is_refused_with_the_remedy() {
        let ordinary = Dirty::default();
        for (task, part) in [
            (Dirty { block: Bytes(0), ..ordinary.clone() }, "between 4KiB and 16MiB"),
            (Dirty { block: Bytes(4097), ..ordinary.clone() }, "multiple of 4KiB"),
            (Dirty { block: Bytes::mib(32), ..ordinary.clone() }, "between 4KiB and 16MiB"),
            (Dirty { size: Some(Bytes::kib(4)), ..ordinary.clone() }, "make the file larger"),
            (Dirty { limit: Bytes::kib(4), ..ordinary.clone() }, "raise it"),
        ] {
            let error = task.check().expect_err(part);
            assert!(error.contains(part), "{error}");
        }
        assert_eq!(ordinary.check(), Ok(()));
        assert!(ordinary.caution().is_some() && ordinary.limit == "8GiB".parse().unwrap());
        assert_eq!(Dirty { io: DirtyIo::Direct, ..ordinary }.caution(), None);
    }
}
