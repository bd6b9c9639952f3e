//! The file that a log lies in, which has no name.

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

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

/// A log that is written from its start to its size, and again.
pub struct Log {
    place: Place,
    file: OwnedFd,
    at: u64,
}

impl Log {
    /// Makes the file and brings it into its layout.
    ///
    /// # Errors
    /// Where the file system cannot have it, or should not.
    pub fn create(place: Place) -> Result<Self, SetupError> {
        let file = files::create(&place.dir, place.size, "log")?;
        let failed = files::failed(&place.dir, "log");
        let mut log = Self { place, file, at: 0 };
        log.begin().map_err(failed)?;
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

    /// Room for so many bytes: where they go. Where the log is full, it begins again.
    pub fn room(&mut self, bytes: u64) -> io::Result<u64> {
        if self.at + bytes > self.place.size {
            self.begin()?;
        }
        let at = self.at;
        self.at += bytes;
        Ok(at)
    }

    // What is written from here on meets the layout again, and nothing of what was before is under way.
    fn begin(&mut self) -> io::Result<()> {
        let (file, size) = (&self.file, self.place.size);
        let first = self.at == 0;
        self.at = 0;
        match self.place.layout {
            Layout::Written if !first => return Ok(()),
            Layout::Written => files::fill(file, size)?,
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
        Ok(rustix::fs::fsync(file)?)
    }
}
