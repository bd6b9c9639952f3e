//! What a policy says of files: the `[file]` table.

use std::fmt;
use std::str::FromStr;

use super::values::{batch, once, word};

/// How commits to files are made durable where the policy's target is a folder, as measured there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FilePolicy {
    /// The call, for writes by calls.
    pub sync: FileSync,
    /// What is written onto.
    pub layout: FileLayout,
    /// Records that one sync is worth waiting for, where the application allows it; at least 1.
    pub batch: u32,
    /// The call for stores to a mapping; `None`: not known, so that it follows from `sync`
    /// ([`FileSync::on_a_mapping`]).
    pub mapped: Option<RegionSync>,
}

impl FilePolicy {
    /// The call that makes stores to a mapping durable.
    pub fn on_a_mapping(&self) -> RegionSync {
        self.mapped.unwrap_or_else(|| self.sync.on_a_mapping())
    }
}

/// How a write to a file is made durable. There are no others: what leaves data in a cache is not
/// for a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileSync {
    /// `fsync(2)`.
    Fsync,
    /// `fdatasync(2)`.
    Fdatasync,
    /// A file opened with `O_DSYNC`.
    ODsync,
    /// `pwritev2(2)` with `RWF_DSYNC`.
    RwfDsync,
    /// `msync(2)` with `MS_SYNC`, of a mapping.
    Msync,
    /// A write and an fdatasync linked to it, by io_uring.
    Uring,
}

/// What a write meets in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileLayout {
    /// The file's end, without blocks.
    Append,
    /// The file's end, and blocks that were reserved beyond it.
    KeepSize,
    /// Reserved blocks that were never written.
    Allocated,
    /// Blocks that were written before.
    Written,
}

/// The call that makes stores to a mapped file durable. Each is given at least what was stored
/// since the last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RegionSync {
    /// `msync(2)` with `MS_SYNC`, of the pages that were stored to.
    #[default]
    Msync,
    /// `fdatasync(2)` of the whole file.
    Fdatasync,
    /// `fsync(2)` of the whole file.
    Fsync,
}

impl FileSync {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Fsync, Self::Fdatasync, Self::ODsync, Self::RwfDsync, Self::Msync, Self::Uring];

    /// Its word in a policy.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fsync => "fsync",
            Self::Fdatasync => "fdatasync",
            Self::ODsync => "o-dsync",
            Self::RwfDsync => "rwf-dsync",
            Self::Msync => "msync",
            Self::Uring => "uring",
        }
    }

    /// The call for stores to a mapping. `O_DSYNC`, `RWF_DSYNC` and io_uring apply to write calls,
    /// which a mapping does not use: `fdatasync` guarantees the same as each of them (open(2),
    /// "O_DSYNC"; `RWF_DSYNC` in readv(2)).
    pub const fn on_a_mapping(self) -> RegionSync {
        match self {
            Self::Fsync => RegionSync::Fsync,
            Self::Msync => RegionSync::Msync,
            Self::Fdatasync | Self::ODsync | Self::RwfDsync | Self::Uring => RegionSync::Fdatasync,
        }
    }
}

impl FileLayout {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Append, Self::KeepSize, Self::Allocated, Self::Written];

    /// Its word in a policy.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Append => "append",
            Self::KeepSize => "keep-size",
            Self::Allocated => "allocated",
            Self::Written => "written",
        }
    }
}

impl RegionSync {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Msync, Self::Fdatasync, Self::Fsync];

    /// Its word in a policy.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Msync => "msync",
            Self::Fdatasync => "fdatasync",
            Self::Fsync => "fsync",
        }
    }
}

/// A text that is none of the words of a file policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{word}' is none of {known}")]
pub struct ParseWordError {
    word: String,
    known: String,
}

macro_rules! words {
    ($($kind:ty),*) => {$(
        impl fmt::Display for $kind {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.name())
            }
        }

        impl FromStr for $kind {
            type Err = ParseWordError;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                let known = Self::ALL.into_iter().find(|known| known.name() == text);
                known.ok_or_else(|| ParseWordError {
                    word: text.into(),
                    known: Self::ALL.map(Self::name).join(", "),
                })
            }
        }
    )*};
}

words!(FileSync, FileLayout, RegionSync);

/// The keys of the table, as far as they were read.
#[derive(Debug, Default)]
pub(super) struct Fields {
    sync: Option<FileSync>,
    layout: Option<FileLayout>,
    batch: Option<u32>,
    mapped: Option<RegionSync>,
}

impl Fields {
    pub(super) fn read(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "sync" => once(key, &mut self.sync, word(value)?),
            "layout" => once(key, &mut self.layout, word(value)?),
            "batch" => once(key, &mut self.batch, batch(value)?),
            "mapped" => once(key, &mut self.mapped, word(value)?),
            other => Err(format!("'{other}' is not a key of [file]")),
        }
    }

    // Or the key that is missing.
    pub(super) fn done(self) -> Result<FilePolicy, &'static str> {
        Ok(FilePolicy {
            sync: self.sync.ok_or("file.sync")?,
            layout: self.layout.ok_or("file.layout")?,
            batch: self.batch.ok_or("file.batch")?,
            mapped: self.mapped,
        })
    }
}

impl fmt::Display for FilePolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "[file]")?;
        writeln!(f, "# what makes a write durable, and what it is best written onto")?;
        writeln!(f, "sync = \"{}\"\nlayout = \"{}\"", self.sync, self.layout)?;
        writeln!(
            f,
            "# records that one sync is worth waiting for, where the application allows it"
        )?;
        writeln!(f, "batch = {}", self.batch)?;
        if let Some(mapped) = self.mapped {
            writeln!(f, "# what makes stores to a mapping durable")?;
            writeln!(f, "mapped = \"{mapped}\"")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // No call that promises less stands in for one that a mapping has not.
    #[test]
    fn a_mapping_is_made_as_durable_as_a_write() {
        for sync in FileSync::ALL {
            assert_eq!(sync.name().parse(), Ok(sync));
            let stands_in = sync.on_a_mapping();
            match sync {
                FileSync::Fsync | FileSync::Fdatasync | FileSync::Msync => {
                    assert_eq!(stands_in.name(), sync.name());
                }
                _ => assert_eq!(stands_in, RegionSync::Fdatasync),
            }
        }
        let policy = FilePolicy {
            sync: FileSync::Uring,
            layout: FileLayout::Append,
            batch: 1,
            mapped: Some(RegionSync::Msync),
        };
        assert_eq!(policy.on_a_mapping(), RegionSync::Msync);
        assert_eq!(FilePolicy { mapped: None, ..policy }.on_a_mapping(), RegionSync::Fdatasync);
    }

    #[test]
    fn what_makes_nothing_durable_is_no_word() {
        for word in ["none", "range-write", "range-wait", "o-sync"] {
            let error = word.parse::<FileSync>().unwrap_err().to_string();
            assert!(error.contains("none of fsync, fdatasync"), "{error}");
        }
    }
}
