//! Blocks written to a file over and over, and left to the kernel or to a call that is gentler than
//! a sync of each.

mod size;

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::time::{Duration, Instant};

use ringfence_experiment::Reason;
use ringfence_experiment::task::{Dirty, DirtyIo, Parameters};
use ringfence_machine::root::FsRoot;
use ringfence_machine::units::Bytes;
use rustix::fs::OFlags;
use rustix::io::ReadWriteFlags;

use crate::files::raw::{RWF_DONTCACHE, sync_file_range};
use crate::files::{self, Buffer, Filled, Meter, Pace, Round};
use crate::workload::{Latencies, SetupError, Work, Workload};

/// Writes blocks.
pub struct Dirtier {
    what: String,
    io: DirtyIo,
    // Keeps the file, which has no name, for others that write to it.
    _made: Rc<OwnedFd>,
    file: OwnedFd,
    block: Buffer,
    round: Round,
    number: u64,
    unsynced: u64,
    limit: u64,
    meter: Meter,
    pace: Option<Pace>,
    stops_at_limit: bool,
    spent: bool,
    failure: Option<String>,
}

impl Dirtier {
    /// Makes the file, unless there is one, and opens it.
    ///
    /// # Errors
    /// Where it cannot be had, or a file that is large enough to do harm.
    pub fn new(task: &Dirty, seed: u64, filled: &mut Filled) -> Result<Self, SetupError> {
        task.check().map_err(SetupError::Other)?;
        let root = FsRoot::host();
        let size = size::of(task, &root)?;
        Self::with(task, size, seed, filled, root)
    }

    fn with(
        task: &Dirty,
        size: u64,
        seed: u64,
        filled: &mut Filled,
        root: FsRoot,
    ) -> Result<Self, SetupError> {
        let what =
            format!("writing blocks of {} by io={} in {}", task.block, task.io, task.dir.display());
        let made = filled.of(&task.dir, size)?;
        let flags = if task.io == DirtyIo::Direct { OFlags::DIRECT } else { OFlags::empty() };
        let opened = files::open_again(&made, flags);
        let file = opened.map_err(|error| SetupError::Other(format!("{what}: {error}")))?;
        Ok(Self {
            what,
            io: task.io,
            _made: made,
            file,
            block: Buffer::new(task.block.0 as usize, seed),
            round: Round::new(task.block.0, size),
            number: 0,
            unsynced: 0,
            limit: task.limit.0,
            meter: Meter::new(root, task.limit.0),
            pace: task.pace.map(Pace::new),
            stops_at_limit: false,
            spent: false,
            failure: None,
        })
    }

    // The next block, and what its way asks for after it.
    fn write(&mut self) -> io::Result<u64> {
        let at = self.round.next();
        self.number += 1;
        let block = self.block.get();
        block[..8].copy_from_slice(&self.number.to_le_bytes());
        let len = block.len() as u64;
        let written = match self.io {
            DirtyIo::Dontcache => {
                let flags = ReadWriteFlags::from_bits_retain(RWF_DONTCACHE);
                rustix::io::pwritev2(&self.file, &[IoSlice::new(block)], at, flags)?
            }
            _ => rustix::io::pwrite(&self.file, block, at)?,
        };
        // A short one is how a full file system may say so.
        if (written as u64) < len {
            return Err(io::ErrorKind::StorageFull.into());
        }
        match self.io {
            DirtyIo::Buffered | DirtyIo::Direct | DirtyIo::Dontcache => {}
            DirtyIo::Write => sync_file_range(self.file.as_fd(), at, len, false)?,
            DirtyIo::Wait => sync_file_range(self.file.as_fd(), at, len, true)?,
            DirtyIo::Fdatasync => {
                self.unsynced += len;
                if self.unsynced >= Dirty::SYNCED {
                    self.sync()?;
                }
            }
        }
        Ok(len)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.unsynced = 0;
        Ok(rustix::fs::fdatasync(&self.file)?)
    }

    fn failed(&mut self, error: &io::Error) {
        self.failure = Some(format!("{}: {error}", self.what));
    }
}

impl Workload for Dirtier {
    fn work(&mut self, amount: u64, _: &dyn Latencies) -> Work {
        let mut work = Work::default();
        for _ in 0..amount {
            if self.failure.is_some()
                || self.spent
                || self.pace.as_ref().is_some_and(|pace| !pace.wait())
            {
                break;
            }
            let bytes = self.block.get().len() as u64;
            if !self.meter.allows(bytes) {
                if self.stops_at_limit {
                    self.spent = true;
                    break;
                }
                // To stand still would be to do no harm.
                self.failure = Some(format!(
                    "{}: it wrote {} to the device in one window, which is its limit: raise the \
                     limit, set a pace, or shorten the window",
                    self.what,
                    Bytes(self.limit)
                ));
                break;
            }
            match self.write() {
                Ok(bytes) => work.units += bytes,
                Err(error) => self.failed(&error),
            }
            if let Some(pace) = &mut self.pace {
                pace.count(bytes);
            }
        }
        work
    }

    fn stop_at_limit(&mut self) {
        self.stops_at_limit = true;
    }

    fn spent(&self) -> bool {
        self.spent
    }

    fn resumed(&mut self) {
        self.spent = false;
        self.meter.begin();
    }

    // What is ended meanwhile ends between two parts: within a call it waits for all that there is
    // to write.
    fn paused(&mut self) {
        let in_parts = |size: u64| {
            let mut parts = (0..size).step_by(PART as usize);
            parts.try_for_each(|at| sync_file_range(self.file.as_fd(), at, PART, true))
        };
        let size = rustix::fs::fstat(&self.file).map(|stat| stat.st_size as u64);
        let synced = size.map_err(io::Error::from).and_then(in_parts).and_then(|()| self.sync());
        if let Err(error) = synced {
            self.failed(&error);
        }
    }

    fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }
}

/// Bytes of a file that are synced by one call where all of it is.
const PART: u64 = 4 << 20;

/// Writes a little in a task's way, and leaves nothing. Returned is how many bytes a second the
/// device took.
///
/// # Errors
/// Why it cannot be had here.
pub fn try_out(task: &Dirty) -> Result<f64, Reason> {
    const ENOUGH: u64 = 32 << 20;
    const LONG: Duration = Duration::from_millis(100);
    let in_words = |error: SetupError| error.to_string();
    // What the task itself would take.
    files::fits(&task.dir, size::of(task, &FsRoot::host()).map_err(in_words)?, "file")
        .map_err(in_words)?;
    let unlimited = Dirty { limit: Bytes(u64::MAX), pace: None, ..task.clone() };
    let small = (8 * task.block.0).clamp(1 << 20, ENOUGH);
    let mut filled = Filled::default();
    let mut dirtier =
        Dirtier::with(&unlimited, small, 1, &mut filled, FsRoot::host()).map_err(in_words)?;
    let (begun, mut bytes) = (Instant::now(), 0);
    let mut write = || -> io::Result<()> {
        while bytes < ENOUGH && begun.elapsed() < LONG {
            bytes += dirtier.write()?;
        }
        dirtier.sync()
    };
    let written = write();
    written.map_err(|error| format!("{}: {error}", dirtier.what))?;
    Ok(bytes as f64 / begun.elapsed().as_secs_f64())
}

#[cfg(test)]
mod tests;
