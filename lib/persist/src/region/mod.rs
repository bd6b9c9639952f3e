//! Mapped memory of fixed length, and what it is mapped from.
//!
//! A [`Region`] is one range of memory. Every page of it is present and writable, and it knows how
//! durable a store to it can become, and why ([`Region::durability`], [`Region::explain`]). The
//! caller names the least durability to accept; less is refused with the reason.
//!
//! ```
//! use ringfence_persist::{Durability, Mapped, Memory, Region};
//!
//! let path = std::env::temp_dir().join(format!("region-{}", std::process::id()));
//! let region = Region::create(&path, 1 << 20, Durability::Volatile)?;
//! let memory = Mapped::new(region)?;
//! memory.store(0, &[42]);
//! // Durable now, if the file is on a disk: on tmpfs nothing ever is, and there `create` would
//! // have refused anything above `Durability::Volatile`.
//! memory.region().msync(0..1)?;
//! drop(memory);
//! assert_eq!(Region::open(&path, Durability::Volatile)?.len(), 1 << 20);
//! std::fs::remove_file(&path)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What the lab overwrites is mapped with [`Region::map`]: its files are unlinked while open, so
//! that they are gone as soon as the process ends, however it ends.

mod descriptor;
mod devdax;
mod durability;
mod error;
pub mod group;
mod medium;
mod open;
mod probe;
mod request;
mod room;
mod scratch;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tree;

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

pub use durability::{Domain, Durability, Explanation};
pub use error::RegionError;
pub use request::{Medium, Pages, Request};
pub use room::room_in_memory;

use rustix::mm::Advice;

use crate::kernel::Mapping;
use crate::policy::RegionSync;
use group::{Group, Meeting};
use medium::{Facts, MapSync, judge};

/// A range of mapped memory, unmapped when dropped. It can be sent to another thread; to share it,
/// share pointers into it, with the synchronisation that their use needs.
#[derive(Debug)]
pub struct Region {
    mapping: Mapping,
    len: usize,
    file: Option<File>,
    path: Option<PathBuf>,
    explanation: Box<Explanation>,
    // Whether the file can become shorter.
    can_shrink: bool,
    // The kernel reports a failure to write back once per open file, to the first caller that asks,
    // and takes the pages for clean from then on: so the first one is kept, for all that share the
    // region.
    syncs: Syncs,
}

impl Region {
    /// The first byte, aligned to 4096 bytes at least. Valid for reads and writes of
    /// [`Region::len`] bytes as long as the region exists and its file is not shrunk.
    pub fn base(&self) -> *mut u8 {
        self.mapping.base()
    }

    /// Usable bytes: the file's length, or the requested length; after [`Region::map`], rounded up
    /// to whole pages.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Never: a region has at least one byte.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How durable a store to the region can become.
    #[doc(alias("pmem_is_pmem", "pmem2_map_get_store_granularity"))]
    pub fn durability(&self) -> Durability {
        self.explanation.durability()
    }

    /// How durable a store can become, and why: as it was found when the region was mapped.
    pub fn explain(&self) -> &Explanation {
        &self.explanation
    }

    /// The path that the region was created or opened with; `None` for memory without a name.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Whether a file or device is mapped, so that [`Region::msync`] means something.
    pub fn is_file(&self) -> bool {
        self.file.is_some()
    }

    /// The file or device that is mapped, for locks on it.
    pub(crate) fn file(&self) -> Option<&File> {
        self.file.as_ref()
    }

    /// Checks that the file still has every byte of the region.
    ///
    /// A file belongs to the whole system: any process that may write to it may truncate it while
    /// it is mapped. No byte of another file or process shows up then, but the next touch of a page
    /// that lies wholly behind the new end is SIGBUS, which ends the process that touches it
    /// (mmap(2)); what was stored there is gone. No library can prevent that for a file with a
    /// name; mode 0600 leaves it to the owner and root. Memory, memfds (whose length is sealed) and
    /// devices do not shrink. This looks before a touch, and [`Region::msync`] looks first too;
    /// what happens between look and touch it cannot see.
    ///
    /// # Errors
    /// [`RegionError::Shrunk`], or what the kernel says when the file is looked at.
    pub fn intact(&self) -> Result<(), RegionError> {
        let Some(file) = self.file.as_ref().filter(|_| self.can_shrink) else { return Ok(()) };
        let path = self.path.clone().unwrap_or_default();
        let meta = file.metadata().map_err(|error| {
            RegionError::kernel(format!("looking at {}", path.display()), error, "check the disk")
        })?;
        if meta.len() < self.len as u64 {
            return Err(RegionError::Shrunk { path, now: meta.len(), mapped: self.len as u64 });
        }
        Ok(())
    }

    /// Waits until the bytes in `range` are on the file's medium (`msync(MS_SYNC)`); the range, of
    /// offsets in bytes, is widened to whole pages. Of memory it does nothing, successfully. Under
    /// [`Durability::PageCache`] the stores to the range are durable on return.
    ///
    /// One sync is under way at a time. Threads that come meanwhile are covered by the next one
    /// together ([`group`]), over a range that holds all of theirs.
    ///
    /// # Errors
    /// A range that is not inside the region, a file that was shrunk ([`RegionError::Shrunk`]), or
    /// what the kernel reports: a device-DAX device has no msync (EINVAL). After EIO the kernel
    /// takes the pages for written all the same (fsync(2)): trying again proves nothing, and what
    /// was stored since the last success must be taken for lost. So the first failure stays: every
    /// later call returns it, as [`RegionError::Lost`].
    #[doc(alias = "pmem_msync")]
    pub fn msync(&self, range: Range<usize>) -> Result<(), RegionError> {
        self.sync(range, RegionSync::Msync)
    }

    /// As [`msync`](Self::msync), by this call: `fdatasync` and `fsync` write back the whole file,
    /// which may take longer and is never less. Of memory without a file there is nothing to call.
    /// Where threads that wait together want different calls, the thread that syncs makes its own:
    /// each call covers all of them.
    ///
    /// # Errors
    /// As [`msync`](Self::msync).
    pub fn sync(&self, range: Range<usize>, by: RegionSync) -> Result<(), RegionError> {
        let Range { start, end } = range;
        if start > end || end > self.len {
            return Err(RegionError::Request(format!(
                "the range {start}..{end} is not inside a region of {} bytes",
                self.len
            )));
        }
        let sync = |range| self.sync_now(range, by).map_err(Arc::new);
        group::commit(&self.syncs, start..end, sync).map_err(RegionError::Lost)
    }

    fn sync_now(
        &self,
        Range { start, end }: Range<usize>,
        by: RegionSync,
    ) -> Result<(), RegionError> {
        self.intact()?;
        let synced = match (by, &self.file) {
            (RegionSync::Msync, _) | (_, None) => self.mapping.msync(start, end),
            (RegionSync::Fdatasync, Some(file)) => file.sync_data(),
            (RegionSync::Fsync, Some(file)) => file.sync_all(),
        };
        synced.map_err(|error| {
            let what = format!("{by} of bytes {start}..{end} of {}", self.explanation.subject());
            RegionError::kernel(what, error, "take what was stored since the last success for lost")
        })
    }

    /// How many times it was synced since it was mapped, each for one thread or for several.
    pub fn syncs(&self) -> u64 {
        self.syncs.lock().begun()
    }

    /// Whether every [`sync`](Self::sync) so far succeeded.
    ///
    /// # Errors
    /// The first failure.
    pub fn health(&self) -> Result<(), RegionError> {
        self.syncs.lock().health().map_err(RegionError::Lost)
    }

    // The caller makes sure that nothing holds a reference into the region.
    pub(crate) fn give_back(&self) -> io::Result<()> {
        self.mapping.advise(if self.is_file() {
            Advice::LinuxRemove
        } else {
            Advice::LinuxDontNeed
        })
    }

    fn of_memory(
        mapping: Mapping,
        file: Option<File>,
        facts: Facts,
    ) -> Result<Region, RegionError> {
        let len = mapping.len();
        let kind = if file.is_some() { "memfd" } else { "anonymous memory" };
        let explanation = judge(
            format!("{kind} of {len} bytes"),
            &facts,
            &MapSync::NotTried("it is memory".into()),
        );
        let region = Region {
            mapping,
            len,
            file,
            path: None,
            explanation: Box::new(explanation),
            can_shrink: false,
            syncs: Syncs::default(),
        };
        region.populated()
    }

    fn of_file(
        mapping: Mapping,
        len: usize,
        file: File,
        path: &Path,
        facts: &Facts,
        map_sync: &MapSync,
    ) -> Result<Region, RegionError> {
        let region = Region {
            mapping,
            len,
            can_shrink: file.metadata().is_ok_and(|meta| meta.is_file()),
            syncs: Syncs::default(),
            file: Some(file),
            path: Some(path.into()),
            explanation: Box::new(judge(path.display().to_string(), facts, map_sync)),
        };
        region.populated()
    }

    fn populated(self) -> Result<Region, RegionError> {
        if let Err(error) = self.mapping.populate() {
            self.intact()?;
            let what = format!("making the pages of {} present", self.explanation.subject());
            let remedy = "the disk is full or failing, or memory is short: see the kernel's log";
            return Err(RegionError::kernel(what, error, remedy));
        }
        Ok(self)
    }

    fn at_least(self, least: Durability) -> Result<Region, RegionError> {
        at_least((*self.explanation).clone(), least)?;
        Ok(self)
    }
}

// The thread that syncs, and the threads that wait for it.
#[derive(Debug, Default)]
struct Syncs {
    group: Mutex<Group<Arc<RegionError>>>,
    changed: Condvar,
}

impl Syncs {
    fn lock(&self) -> std::sync::MutexGuard<'_, Group<Arc<RegionError>>> {
        self.group.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Meeting<Arc<RegionError>> for Syncs {
    fn until<T>(&self, mut look: impl FnMut(&mut Group<Arc<RegionError>>) -> Option<T>) -> T {
        let mut group = self.lock();
        loop {
            if let Some(seen) = look(&mut group) {
                return seen;
            }
            group = self.changed.wait(group).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn change(&self, change: impl FnOnce(&mut Group<Arc<RegionError>>)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }
}

fn at_least(found: Explanation, least: Durability) -> Result<(), RegionError> {
    if found.durability() >= least {
        return Ok(());
    }
    Err(RegionError::LessDurable { found: Box::new(found), asked: least })
}

/// The facts about an open file or device of this machine.
fn facts_of(file: &File, path: &Path) -> Facts {
    let root = Path::new("/");
    match file.metadata() {
        Ok(meta) if meta.file_type().is_char_device() => {
            Facts::of_devdax(root, libc::major(meta.rdev()), libc::minor(meta.rdev()))
        }
        _ => {
            let resolved = std::fs::canonicalize(path).unwrap_or_else(|_| path.into());
            Facts::of_file(root, descriptor::mount_id(file), &resolved, descriptor::magic(file))
        }
    }
}
