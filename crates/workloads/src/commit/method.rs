//! One way to make a batch durable.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, OwnedFd};

use ringfence_experiment::task::{Commit, Io, Sync};
use rustix::fs::OFlags;
use rustix::io::ReadWriteFlags;

use super::log::Log;
use crate::files::raw::{Map, RWF_ATOMIC, RWF_DONTCACHE, Ring, sync_file_range};

/// The file, opened as this way wants it, and what else it needs.
pub struct Way {
    sync: Sync,
    io: Io,
    file: OwnedFd,
    flags: ReadWriteFlags,
    ring: Option<Ring>,
    map: Option<Map>,
}

impl Way {
    /// Opens a task's log.
    ///
    /// # Errors
    /// What the kernel or the file system refuses.
    pub fn open(task: &Commit, log: &Log) -> io::Result<Self> {
        let (sync, io) = (task.sync, task.io);
        let opened = match sync {
            Sync::OSync => OFlags::SYNC,
            Sync::ODsync => OFlags::DSYNC,
            _ => OFlags::empty(),
        };
        let direct =
            if matches!(io, Io::Direct | Io::Atomic) { OFlags::DIRECT } else { OFlags::empty() };
        let file = log.open(opened | direct)?;
        let written = match io {
            Io::Dontcache => RWF_DONTCACHE,
            Io::Atomic => RWF_ATOMIC,
            Io::Buffered | Io::Direct | Io::Mmap => 0,
        };
        let durable =
            if sync == Sync::RwfDsync { ReadWriteFlags::DSYNC } else { ReadWriteFlags::empty() };
        let flags = ReadWriteFlags::from_bits_retain(written) | durable;
        let ring = (sync == Sync::Uring).then(Ring::new).transpose()?;
        let len = usize::try_from(task.size.0).map_err(io::Error::other)?;
        let map = (io == Io::Mmap).then(|| Map::new(file.as_fd(), len)).transpose()?;
        Ok(Self { sync, io, file, flags, ring, map })
    }

    /// Writes to another file from now on.
    #[cfg(test)]
    pub fn divert(&mut self, file: OwnedFd) {
        self.file = file;
    }

    /// Writes a batch at an offset, and makes it durable in this way.
    ///
    /// # Errors
    /// Of the kernel's. What was written before is as it was.
    #[inline]
    pub fn commit(&mut self, batch: &[u8], offset: u64) -> io::Result<()> {
        if let Some(ring) = &mut self.ring {
            return ring.write_and_sync(self.file.as_fd(), batch, offset, self.flags);
        }
        self.write(batch, offset)?;
        let len = batch.len() as u64;
        match self.sync {
            Sync::Fsync => Ok(rustix::fs::fsync(&self.file)?),
            Sync::Fdatasync => Ok(rustix::fs::fdatasync(&self.file)?),
            Sync::Msync => match &mut self.map {
                Some(map) => map.sync(offset as usize, batch.len()),
                None => Err(io::ErrorKind::InvalidInput.into()),
            },
            Sync::RangeWrite => sync_file_range(self.file.as_fd(), offset, len, false),
            Sync::RangeWait => sync_file_range(self.file.as_fd(), offset, len, true),
            // The write has done it, or there is no sync.
            Sync::OSync | Sync::ODsync | Sync::RwfDsync | Sync::Uring | Sync::None => Ok(()),
        }
    }

    #[inline]
    fn write(&mut self, batch: &[u8], offset: u64) -> io::Result<()> {
        if let Some(map) = &mut self.map {
            map.store(batch, offset as usize);
            return Ok(());
        }
        let written = match self.io {
            Io::Buffered | Io::Direct if self.flags.is_empty() => {
                rustix::io::pwrite(&self.file, batch, offset)?
            }
            _ => rustix::io::pwritev2(&self.file, &[IoSlice::new(batch)], offset, self.flags)?,
        };
        // A short one is how a full file system may say so.
        if written < batch.len() { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }
}
