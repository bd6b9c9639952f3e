//! The file that a log lies in, which has no name.

use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use ringfence_experiment::task::{Commit, Layout};
use ringfence_machine::units::Bytes;
use rustix::fs::{AtFlags, FallocateFlags, Mode, OFlags};

use crate::workload::SetupError;

/// Of what is free, a log takes this part at most.
const PART_OF_FREE: u64 = 4;

const BTRFS: u64 = 0x9123_683e;
const TMPFS: u64 = 0x0102_1994;
const RAMFS: u64 = 0x8584_58f6;

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
        let dir = place.dir.display().to_string();
        if let Some(reason) = unfit(&place.dir) {
            return Err(SetupError::Other(format!("no log in {dir}, because {reason}")));
        }
        let failed = |error: io::Error| SetupError::Other(format!("making a log in {dir}: {error}"));
        let fs = rustix::fs::statvfs(&place.dir).map_err(|error| failed(error.into()))?;
        let free = fs.f_bavail * fs.f_frsize;
        if place.size > free / PART_OF_FREE {
            return Err(SetupError::Other(format!(
                "a log of {} in {dir} would take more than a quarter of the {} that are free: take a smaller size",
                Bytes(place.size),
                Bytes(free)
            )));
        }
        let file = unnamed(&place.dir).map_err(failed)?;
        let mut log = Self { place, file, at: 0 };
        log.begin().map_err(failed)?;
        Ok(log)
    }

    /// The file once more, opened with other flags.
    pub fn open(&self, flags: OFlags) -> io::Result<OwnedFd> {
        // The file has no name, but its descriptor has.
        let path = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        Ok(rustix::fs::open(path, flags | OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?)
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
            Layout::Written => fill(file, size)?,
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

/// Why no log should lie in a folder, such that it follows "because".
fn unfit(dir: &Path) -> Option<String> {
    // What cannot be asked is found out by trying.
    match rustix::fs::statfs(dir).ok()?.f_type as u64 {
        TMPFS | RAMFS => Some("it lies in memory, where nothing is durable and syncing does nothing".into()),
        // fs/btrfs/tree-log.c, btrfs_log_inode_parent: most kernels skip files without links.
        BTRFS => Some("btrfs of most kernels does not log files without a name, and these have none".into()),
        _ => None,
    }
}

fn unnamed(dir: &Path) -> io::Result<OwnedFd> {
    let mode = Mode::RUSR | Mode::WUSR;
    match rustix::fs::open(dir, OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC, mode) {
        // Not every file system has files that never had a name.
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::ISDIR | rustix::io::Errno::INVAL) => {}
        result => return Ok(result?),
    }
    let folder = rustix::fs::open(dir, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let name = format!(".ringfence-log-{}", std::process::id());
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
    let file = rustix::fs::openat(&folder, &name, flags, mode)?;
    rustix::fs::unlinkat(&folder, &name, AtFlags::empty())?;
    Ok(file)
}

fn fill(file: &OwnedFd, size: u64) -> io::Result<()> {
    let block = [0xa5; 1 << 16];
    let mut file = std::fs::File::from(file.as_fd().try_clone_to_owned()?);
    let mut left = size;
    while left > 0 {
        let part = left.min(block.len() as u64);
        file.write_all(&block[..part as usize])?;
        left -= part;
    }
    Ok(())
}
