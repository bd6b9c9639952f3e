//! Files of our own, for tasks that use a disk: without a name, within what is free, and on file
//! systems where what is measured tells something.

mod meter;
mod pace;
pub mod raw;

use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use ringfence_experiment::Reason;
use ringfence_machine::units::Bytes;
use rustix::fs::{AtFlags, Mode, OFlags, StatVfsMountFlags};

use crate::workload::SetupError;

pub use meter::Meter;
pub use pace::Pace;

/// For `O_DIRECT`: a page, and the block of nearly every device. One that wants more refuses, and
/// is not run.
pub const ALIGNMENT: usize = 4096;

/// Of what is free, a file takes this part at most.
const PART_OF_FREE: u64 = 4;

/// With less than this no size is worth trying.
const LEAST_FREE: u64 = 1 << 20;

const BTRFS: u64 = 0x9123_683e;
const TMPFS: u64 = 0x0102_1994;
const RAMFS: u64 = 0x8584_58f6;
// Linux, include/uapi/linux/magic.h and fs/smb/client: NFS, SMB, Ceph, AFS and 9P.
const NETWORK: [u64; 6] = [0x6969, 0xff53_4d42, 0xfe53_4d42, 0x00c3_6400, 0x5346_414f, 0x0102_1997];

/// Files already made and filled, for tasks that differ in nothing that concerns them.
#[derive(Default)]
pub struct Filled(Vec<(PathBuf, u64, Rc<OwnedFd>)>);

impl Filled {
    /// A file of a size, all of it written and on the device, and nothing of it in the page cache.
    ///
    /// # Errors
    /// As [`create`].
    pub fn of(&mut self, dir: &Path, size: u64) -> Result<Rc<OwnedFd>, SetupError> {
        if let Some((_, _, file)) =
            self.0.iter().find(|(known, bytes, _)| known == dir && *bytes == size)
        {
            return Ok(Rc::clone(file));
        }
        let file = create(dir, size, "file")?;
        // Pages that are there already would be as large as this filling makes them, and
        // RWF_DONTCACHE would not drop them.
        let prepared = fill(&file, size).and_then(|()| Ok(rustix::fs::fsync(&file)?));
        prepared.and_then(|()| drop_pages(&file, 0, 0)).map_err(failed(dir, "file"))?;
        let file = Rc::new(file);
        self.0.push((dir.to_owned(), size, Rc::clone(&file)));
        Ok(file)
    }
}

/// Where blocks of a file begin, from its start to its end and again.
pub struct Round {
    block: u64,
    blocks: u64,
    next: u64,
}

impl Round {
    /// Through a file of so many bytes, of which what is less than a block at the end is left out.
    pub fn new(block: u64, size: u64) -> Self {
        Self { block, blocks: (size / block).max(1), next: 0 }
    }

    /// The next one's offset.
    pub fn next(&mut self) -> u64 {
        let at = self.next * self.block;
        self.next = (self.next + 1) % self.blocks;
        at
    }
}

/// Makes a file without a name in a folder's file system, to be grown to a size; `what` it is, in a
/// word.
///
/// # Errors
/// Where the file system cannot have it, or should not.
pub fn create(dir: &Path, size: u64, what: &str) -> Result<OwnedFd, SetupError> {
    fits(dir, size, what)?;
    unnamed(dir).map_err(failed(dir, what))
}

/// Checks that a folder's file system can have files of so many bytes together, and should.
///
/// # Errors
/// Otherwise, in a sentence.
pub fn fits(dir: &Path, size: u64, what: &str) -> Result<(), SetupError> {
    let place = dir.display();
    if let Some(reason) = unfit(dir) {
        return Err(SetupError::Other(format!("no {what} in {place}, because {reason}")));
    }
    let fs = rustix::fs::statvfs(dir).map_err(|error| failed(dir, what)(error.into()))?;
    let free = fs.f_bavail * fs.f_frsize;
    let reason = if fs.f_flag.contains(StatVfsMountFlags::RDONLY) {
        "it is mounted read-only: name a folder that can be written to".into()
    } else if fs.f_blocks == 0 {
        "nothing is stored there (it shows the kernel's data): name a folder on a disk".into()
    } else if size <= free / PART_OF_FREE {
        return Ok(());
    } else if free < LEAST_FREE {
        format!("only {} are free: free some, or name a folder on another disk", Bytes(free))
    } else {
        return Err(too_large(size, what, &place, free));
    };
    Err(SetupError::Other(format!("no {what} in {place}, because {reason}")))
}

fn too_large(size: u64, what: &str, place: &std::path::Display, free: u64) -> SetupError {
    SetupError::Other(format!(
        "a {what} of {} in {place} would take more than a quarter of the {} that are free: use a \
         smaller size",
        Bytes(size),
        Bytes(free)
    ))
}

/// That making or preparing one failed.
pub fn failed(dir: &Path, what: &str) -> impl Fn(io::Error) -> SetupError + use<> {
    let making = format!("creating a {what} in {}", dir.display());
    move |error| {
        let remedy = match error.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                "; name a folder in which this user may create files"
            }
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                "; free some space, or name a folder on another disk"
            }
            _ => "",
        };
        SetupError::Other(format!("{making}: {error}{remedy}"))
    }
}

/// A file once more, opened with other flags.
pub fn open_again(file: &OwnedFd, flags: OFlags) -> io::Result<OwnedFd> {
    // The file has no name, but its descriptor has.
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(rustix::fs::open(path, flags | OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?)
}

/// Writes so many bytes to a new file.
pub fn fill(file: &OwnedFd, size: u64) -> io::Result<()> {
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

// Why no file of ours should lie in a folder.
fn unfit(dir: &Path) -> Option<Reason> {
    // What cannot be asked is found out by trying.
    match rustix::fs::statfs(dir).ok()?.f_type as u64 {
        TMPFS | RAMFS => {
            Some("it is in memory, where nothing is durable and syncing does nothing".into())
        }
        // fs/btrfs/tree-log.c, btrfs_log_inode_parent: most kernels skip files without links.
        BTRFS => {
            Some("in most kernels, btrfs does not log unnamed files, and these are unnamed".into())
        }
        known if NETWORK.contains(&known) => {
            Some("it is on another machine, whose disk and load are unknown here".into())
        }
        _ => None,
    }
}

fn unnamed(dir: &Path) -> io::Result<OwnedFd> {
    let mode = Mode::RUSR | Mode::WUSR;
    match rustix::fs::open(dir, OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC, mode) {
        // Not every file system has files that never had a name.
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::ISDIR | rustix::io::Errno::INVAL) => {
        }
        result => return Ok(result?),
    }
    let folder =
        rustix::fs::open(dir, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let name = format!(".ringfence-log-{}", std::process::id());
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
    let file = rustix::fs::openat(&folder, &name, flags, mode)?;
    rustix::fs::unlinkat(&folder, &name, AtFlags::empty())?;
    Ok(file)
}

/// Drops what the page cache has of a part of a file of ours, which is clean; without a length, of
/// all of it.
pub fn drop_pages(file: &OwnedFd, offset: u64, len: u64) -> io::Result<()> {
    Ok(rustix::fs::fadvise(
        file,
        offset,
        std::num::NonZeroU64::new(len),
        rustix::fs::Advice::DontNeed,
    )?)
}

/// Bytes that no device can leave out or make smaller, at an address as `O_DIRECT` wants it.
pub struct Buffer {
    // Somewhat longer than what is used of it, which begins where memory is aligned.
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl Buffer {
    /// So many bytes, drawn from a seed.
    pub fn new(len: usize, seed: u64) -> Self {
        use rand_xoshiro::rand_core::{Rng, SeedableRng};
        let mut bytes = vec![0; len + ALIGNMENT];
        rand_xoshiro::Xoshiro256PlusPlus::seed_from_u64(seed).fill_bytes(&mut bytes);
        let start = bytes.as_ptr().align_offset(ALIGNMENT);
        Self { bytes, start, len }
    }

    /// The bytes.
    pub fn get(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..][..self.len]
    }
}

#[cfg(test)]
pub mod tests {
    use ringfence_machine::root::{self, FsRoot};

    use super::*;

    /// A folder on a disk, if the build is on one.
    pub fn on_a_disk(what: &str) -> Option<tempfile::TempDir> {
        let target = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target");
        std::fs::create_dir_all(target).unwrap();
        let dir = tempfile::tempdir_in(target).unwrap();
        match create(dir.path(), 4096, "file") {
            Ok(_) => Some(dir),
            Err(error) => {
                ringfence_testbed::skip_here(what, &error.to_string());
                None
            }
        }
    }

    /// What the kernel has counted of this thread.
    pub fn counted(what: &str) -> u64 {
        let text = FsRoot::host().read_opt("/proc/thread-self/io").expect("the kernel counts");
        root::field(&text, what).unwrap().parse().unwrap()
    }

    #[test]
    fn rounds_leave_out_what_is_less_than_a_block() {
        let mut round = Round::new(10, 35);
        let at: Vec<u64> = (0..5).map(|_| round.next()).collect();
        assert_eq!(at, [0, 10, 20, 0, 10]);
    }
}
