//! The parameters of commits: records appended to a log in a file, each batch made durable.

use std::path::PathBuf;

use ringfence_machine::units::Bytes;
use serde::{Deserialize, Serialize};

use super::Settings;
use super::axes::axes;
use super::parameters::{FAST_COMMITS, FAST_DISK, Parameters};
use super::word::serde_as_word;
use crate::Reason;
use crate::units::Span;
use ringfence_machine::features::Features;
use std::path::Path;

/// Writes batches of records to a log, each durable before the next. A unit is a commit: a batch
/// written and synced.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Commit {
    /// The folder in whose file system the log lies. The log has no name there, and is gone when
    /// the task is.
    pub dir: PathBuf,
    /// How a batch is made durable.
    pub sync: Sync,
    /// What it is written through.
    pub io: Io,
    /// What it is written onto.
    pub layout: Layout,
    /// Bytes of a record: 1 to 1 MiB.
    pub record: Bytes,
    /// Records that one call writes and one sync makes durable: 1 to 1024.
    pub batch: u32,
    /// Writers of the log, threads of one task: 1 to 64.
    pub writers: u32,
    /// Bytes of the log, after which it begins again: room for two batches of each writer at least,
    /// 1 GiB at most.
    pub size: Bytes,
}

impl Default for Commit {
    fn default() -> Self {
        Self {
            dir: PathBuf::from("."),
            sync: Sync::Fdatasync,
            io: Io::Buffered,
            layout: Layout::Append,
            record: Bytes::kib(4),
            batch: 1,
            writers: 1,
            size: Bytes::mib(16),
        }
    }
}

/// How a batch is made durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sync {
    /// `fsync(2)`.
    Fsync,
    /// `fdatasync(2)`.
    Fdatasync,
    /// A file opened with `O_SYNC`.
    OSync,
    /// A file opened with `O_DSYNC`.
    ODsync,
    /// `pwritev2(2)` with `RWF_DSYNC`.
    RwfDsync,
    /// `msync(2)` with `MS_SYNC`.
    Msync,
    /// A write and an fdatasync that is linked to it, handed to io_uring by one call.
    Uring,
    /// Nothing.
    None,
    /// `sync_file_range(2)` with `SYNC_FILE_RANGE_WRITE`, which starts writing and waits for
    /// nothing.
    RangeWrite,
    /// `sync_file_range(2)` with all three flags, which waits for the data, and for neither
    /// metadata nor the device's cache.
    RangeWait,
}

impl Sync {
    /// All of them, those that make nothing durable last.
    pub const ALL: [Self; 10] = [
        Self::Fsync,
        Self::Fdatasync,
        Self::OSync,
        Self::ODsync,
        Self::RwfDsync,
        Self::Msync,
        Self::Uring,
        Self::None,
        Self::RangeWrite,
        Self::RangeWait,
    ];

    /// Its word in a file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fsync => "fsync",
            Self::Fdatasync => "fdatasync",
            Self::OSync => "o-sync",
            Self::ODsync => "o-dsync",
            Self::RwfDsync => "rwf-dsync",
            Self::Msync => "msync",
            Self::Uring => "uring",
            Self::None => "none",
            Self::RangeWrite => "range-write",
            Self::RangeWait => "range-wait",
        }
    }

    /// What it is, in a few words.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Fsync => "fsync after each batch",
            Self::Fdatasync => "fdatasync after each batch",
            Self::OSync => "a file opened with O_SYNC",
            Self::ODsync => "a file opened with O_DSYNC",
            Self::RwfDsync => "pwritev2 with RWF_DSYNC",
            Self::Msync => "msync of a mapped file",
            Self::Uring => "io_uring, a write and a linked fdatasync",
            Self::None => "nothing, which is not durable",
            Self::RangeWrite => "sync_file_range that waits for nothing, not durable",
            Self::RangeWait => "sync_file_range that waits for the data, not durable",
        }
    }

    /// Whether committed data survive a power failure, as far as the kernel promises it:
    /// `sync_file_range(2)` warns that it does neither write metadata nor empty the device's cache.
    pub fn durable(self) -> bool {
        !matches!(self, Self::None | Self::RangeWrite | Self::RangeWait)
    }
}

/// What a batch is written through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Io {
    /// `pwrite(2)` through the page cache.
    Buffered,
    /// `O_DIRECT`.
    Direct,
    /// `pwritev2(2)` with `RWF_DONTCACHE`: through the page cache, which drops it once it is
    /// written.
    Dontcache,
    /// `pwritev2(2)` with `RWF_ATOMIC`, and `O_DIRECT`: never torn.
    Atomic,
    /// Stores to a mapping of the file.
    Mmap,
}

impl Io {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Buffered, Self::Direct, Self::Dontcache, Self::Atomic, Self::Mmap];

    /// Its word in a file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Buffered => "buffered",
            Self::Direct => "direct",
            Self::Dontcache => "dontcache",
            Self::Atomic => "atomic",
            Self::Mmap => "mmap",
        }
    }

    /// What it is, in a few words.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Buffered => "through the page cache",
            Self::Direct => "with O_DIRECT",
            Self::Dontcache => "with RWF_DONTCACHE",
            Self::Atomic => "with O_DIRECT and RWF_ATOMIC",
            Self::Mmap => "stores to a mapping",
        }
    }
}

/// What a batch is written onto.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// The end of the file, where no blocks are yet.
    Append,
    /// The end of the file, blocks for which `fallocate(2)` with `FALLOC_FL_KEEP_SIZE` has
    /// reserved.
    KeepSize,
    /// Inside the file, onto blocks that `fallocate(2)` has reserved and that were never written.
    Allocated,
    /// Inside the file, onto blocks that were written before.
    Written,
}

impl Layout {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Append, Self::KeepSize, Self::Allocated, Self::Written];

    /// Its word in a file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Append => "append",
            Self::KeepSize => "keep-size",
            Self::Allocated => "allocated",
            Self::Written => "written",
        }
    }

    /// What it is, in a few words.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Append => "the file grows",
            Self::KeepSize => "the file grows into blocks reserved beyond its end",
            Self::Allocated => "reserved blocks that were never written",
            Self::Written => "blocks that were written before",
        }
    }

    /// Whether the file grows by each batch.
    pub fn grows(self) -> bool {
        matches!(self, Self::Append | Self::KeepSize)
    }
}

serde_as_word!(Sync, Io, Layout);

// The least that a block device of Linux has for a block.
const SECTOR: u64 = 512;

impl Commit {
    /// The least time of a window: a commit takes from some microseconds to some tens of
    /// milliseconds, and is stalled for longer.
    pub const LEAST_WINDOW: Span = Span::ms(400);

    /// Bytes that a commit writes.
    pub fn bytes(&self) -> u64 {
        self.record.0 * u64::from(self.batch)
    }

    /// Why this method to commit is impossible.
    pub fn impossible(&self) -> Option<Reason> {
        let (sync, io) = (self.sync, self.io);
        let mapped = io == Io::Mmap;
        match sync {
            Sync::Msync if !mapped => return Some("msync needs io=mmap".into()),
            Sync::OSync | Sync::ODsync | Sync::RwfDsync | Sync::Uring if mapped => {
                let none =
                    format!("{sync} applies to calls, and stores to a mapping are not calls");
                return Some(none.into());
            }
            _ => {}
        }
        if matches!(io, Io::Direct | Io::Atomic) && !self.bytes().is_multiple_of(SECTOR) {
            let multiples = format!(
                "io={io} takes multiples of the device's block, {SECTOR} bytes or more, and record \
                 times batch is {}",
                Bytes(self.bytes())
            );
            return Some(multiples.into());
        }
        if mapped && self.layout.grows() {
            let layout = self.layout;
            let fixed =
                format!("stores to a mapping cannot make a file grow, as layout={layout} requires");
            return Some(fixed.into());
        }
        None
    }
}

axes!(Commit: Commits, "commit" {
    dir: PathBuf,
    sync: Sync,
    io: Io,
    layout: Layout,
    record: Bytes,
    batch: u32,
    writers: u32,
    size: Bytes,
});

impl Parameters for Commit {
    fn unit(&self) -> &'static str {
        "commits"
    }

    fn bytes_per_unit(&self) -> Option<u64> {
        Some(self.bytes())
    }

    fn missing(&self, _: Option<&Features>) -> Option<Reason> {
        self.impossible()
    }

    fn works_in(&self) -> Option<&Path> {
        Some(&self.dir)
    }
    fn with_folder(&self, dir: PathBuf) -> Option<Settings> {
        Some(Commits::default().dir(dir).into())
    }

    fn file_bytes_per_s(&self) -> Option<f64> {
        let batch = (self.record.0 * u64::from(self.batch)).max(4096) as f64;
        Some((batch * FAST_COMMITS * f64::from(self.writers)).min(FAST_DISK))
    }

    fn prepares(&self) -> Bytes {
        if self.layout == Layout::Append { Bytes(0) } else { self.size }
    }

    fn waits_for_a_device(&self) -> bool {
        true
    }

    fn least_window(&self) -> Option<Span> {
        Some(Self::LEAST_WINDOW)
    }

    fn counts_latencies(&self) -> bool {
        true
    }

    fn check(&self) -> Result<(), String> {
        if self.record.0 == 0 || self.record > Bytes::mib(1) {
            return Err(format!("record = {} must be between 1B and 1MiB", self.record));
        }
        if !(1..=1024).contains(&self.batch) {
            return Err(format!("batch = {} must be between 1 and 1024", self.batch));
        }
        if !(1..=64).contains(&self.writers) {
            return Err(format!("writers = {} must be between 1 and 64", self.writers));
        }
        if self.size > Bytes::mib(1024) {
            return Err(format!("size = {} is too large for a test log: at most 1GiB", self.size));
        }
        let least = Bytes(2 * self.bytes() * u64::from(self.writers));
        if self.size < least {
            let bytes = Bytes(self.bytes());
            let by = if self.writers > 1 {
                format!(" by {} writers", self.writers)
            } else {
                String::new()
            };
            return Err(format!(
                "size = {} is too small for commits of {bytes}{by}: at least {least}",
                self.size
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_makes_no_sense_is_refused_with_the_remedy() {
        let ordinary = Commit::default();
        let cases = [
            (Commit { record: Bytes(0), ..ordinary.clone() }, "between 1B and 1MiB"),
            (Commit { record: Bytes::mib(2), ..ordinary.clone() }, "between 1B and 1MiB"),
            (Commit { batch: 0, ..ordinary.clone() }, "between 1 and 1024"),
            (Commit { size: Bytes::kib(4), ..ordinary.clone() }, "at least 8KiB"),
            (Commit { writers: 0, ..ordinary.clone() }, "between 1 and 64"),
            (Commit { writers: 65, ..ordinary.clone() }, "between 1 and 64"),
            (
                Commit { writers: 4, size: Bytes::kib(16), ..ordinary.clone() },
                "by 4 writers: at least 32KiB",
            ),
            (Commit { size: Bytes::mib(2048), ..ordinary.clone() }, "at most 1GiB"),
        ];
        for (commit, part) in cases {
            let error = commit.check().expect_err(part);
            assert!(error.contains(part), "{error}");
        }
        assert_eq!(ordinary.check(), Ok(()));
    }

    #[test]
    fn ways_that_do_not_go_together_are_told() {
        let possible = |sync, io, layout| {
            Commit { sync, io, layout, ..Commit::default() }.impossible().is_none()
        };
        assert!(possible(Sync::Msync, Io::Mmap, Layout::Written));
        assert!(possible(Sync::Fdatasync, Io::Mmap, Layout::Allocated));
        assert!(!possible(Sync::Msync, Io::Mmap, Layout::Append));
        assert!(!possible(Sync::Msync, Io::Buffered, Layout::Written));
        assert!(!possible(Sync::ODsync, Io::Mmap, Layout::Written));
        let direct = |record, batch| {
            Commit { io: Io::Direct, record: Bytes(record), batch, ..Commit::default() }
                .impossible()
        };
        assert!(direct(100, 1).is_some_and(|why| why.contains("and record times batch is 100B")));
        assert_eq!((direct(128, 4), direct(4096, 1)), (None, None));
        let all = Sync::ALL.iter().flat_map(|sync| Io::ALL.iter().map(move |io| (*sync, *io)));
        let ways = all.filter(|(sync, io)| possible(*sync, *io, Layout::Written)).count();
        assert_eq!(ways, 9 * 4 + 6);
    }
}
