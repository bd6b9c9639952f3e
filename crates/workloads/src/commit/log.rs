//! The file that a log lies in, which has no name.

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use ringfence_experiment::task::{Commit, Layout};
use rustix::fs::{FallocateFlags, OFlags};

use crate::files;
use crate::workload::SetupError;

/// What a log lies in, and which tasks share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    dir: PathBuf,
    layout: Layout,
    size: u64,
}

impl Place {
    /// Where a task's log lies.
    pub fn of(task: &Commit) -> Self {
        Self { dir: task.dir.clone(), layout: task.layout, size: task.size.0 }
    }
}

/// A log that is written from its start to its size, and again, by one writer or several at once.
pub struct Log {
    place: Place,
    file: OwnedFd,
    at: AtomicU64,
    // Locked exclusively to start the log again, and shared to write to it.
    turn: RwLock<()>,
}

/// Where a batch goes. While it is there, the log does not begin again.
pub struct Room<'a> {
    /// The offset in bytes.
    pub at: u64,
    _turn: RwLockReadGuard<'a, ()>,
}

impl Log {
    /// Makes the file and brings it into its layout.
    ///
    /// # Errors
    /// Where the file system cannot have it, or should not.
    pub fn create(place: Place) -> Result<Self, SetupError> {
        let file = files::create(&place.dir, place.size, "log")?;
        let failed = files::failed(&place.dir, "log");
        let log = Self { place, file, at: AtomicU64::new(0), turn: RwLock::new(()) };
        let filled = match log.place.layout {
            Layout::Written => files::fill(&log.file, log.place.size),
            _ => Ok(()),
        };
        filled.and_then(|()| log.begin()).map_err(failed)?;
        Ok(log)
    }

    /// The file once more, opened with other flags.
    pub fn open(&self, flags: OFlags) -> io::Result<OwnedFd> {
        files::open_again(&self.file, flags)
    }

    /// Makes the data of all batches durable, however they were written.
    pub fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::fdatasync(&self.file)?)
    }

    /// Room for so many bytes. Where the log is full, it begins again.
    pub fn room(&self, bytes: u64) -> io::Result<Room<'_>> {
        loop {
            let turn = self.turn.read().unwrap_or_else(PoisonError::into_inner);
            let at = self.at.fetch_add(bytes, Relaxed);
            if at + bytes <= self.place.size {
                return Ok(Room { at, _turn: turn });
            }
            drop(turn);
            let _alone = self.turn.write().unwrap_or_else(PoisonError::into_inner);
            // Another writer may have begun it meanwhile.
            if self.at.load(Relaxed) + bytes > self.place.size {
                self.begin()?;
            }
        }
    }

    // What is written from here on meets the layout again, and nothing of what was before is under
    // way.
    fn begin(&self) -> io::Result<()> {
        let (file, size) = (&self.file, self.place.size);
        match self.place.layout {
            Layout::Written => {}
            Layout::Append => rustix::fs::ftruncate(file, 0)?,
            Layout::KeepSize | Layout::Allocated => {
                rustix::fs::ftruncate(file, 0)?;
                let flags = match self.place.layout {
                    Layout::KeepSize => FallocateFlags::KEEP_SIZE,
                    _ => FallocateFlags::empty(),
                };
                rustix::fs::fallocate(file, flags, 0, size)?;
            }
        }
        if self.place.layout != Layout::Written || self.at.load(Relaxed) == 0 {
            rustix::fs::fsync(file)?;
        }
        self.at.store(0, Relaxed);
        Ok(())
    }
}
