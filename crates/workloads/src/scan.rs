//! Reads of what is not in the page cache.

use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use ringfence_experiment::Reason;
use ringfence_experiment::task::{Parameters, Scan, ScanIo};
use ringfence_machine::units::Bytes;
use rustix::fs::OFlags;

use crate::files::{self, Buffer, Filled, Pace, Round};
use crate::workload::{Latencies, SetupError, Work, Workload};

/// Reads blocks of a file of its own.
pub struct Scanner {
    what: String,
    io: ScanIo,
    // Keeps the file, which has no name, for others that read it.
    _made: Rc<OwnedFd>,
    file: OwnedFd,
    block: Buffer,
    round: Round,
    pace: Option<Pace>,
    failure: Option<String>,
}

impl Scanner {
    /// Makes the file, unless there is one, and opens it.
    ///
    /// # Errors
    /// Where it cannot be had.
    pub fn new(task: &Scan, filled: &mut Filled) -> Result<Self, SetupError> {
        task.check().map_err(SetupError::Other)?;
        let what =
            format!("reading blocks of {} by io={} in {}", task.block, task.io, task.dir.display());
        let made = filled.of(&task.dir, task.size.0)?;
        let flags = if task.io == ScanIo::Direct { OFlags::DIRECT } else { OFlags::empty() };
        let opened = files::open_again(&made, flags);
        let file = opened.map_err(|error| SetupError::Other(format!("{what}: {error}")))?;
        let (block, round) =
            (Buffer::new(task.block.0 as usize, 1), Round::new(task.block.0, task.size.0));
        let pace = task.pace.map(Pace::new);
        Ok(Self { what, io: task.io, _made: made, file, block, round, pace, failure: None })
    }

    fn read(&mut self) -> io::Result<u64> {
        let at = self.round.next();
        let block = self.block.get();
        let len = block.len();
        if rustix::io::pread(&self.file, &mut *block, at)? < len {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if self.io == ScanIo::Buffered {
            files::drop_pages(&self.file, at, len as u64)?;
        }
        Ok(len as u64)
    }
}

impl Workload for Scanner {
    fn work(&mut self, amount: u64, _: &dyn Latencies) -> Work {
        let mut work = Work::default();
        for _ in 0..amount {
            if self.failure.is_some() || self.pace.as_ref().is_some_and(|pace| !pace.wait()) {
                break;
            }
            match self.read() {
                Ok(bytes) => {
                    work.units += bytes;
                    if let Some(pace) = &mut self.pace {
                        pace.count(bytes);
                    }
                }
                Err(error) => self.failure = Some(format!("{}: {error}", self.what)),
            }
        }
        work
    }

    // What the kernel has read ahead.
    fn paused(&mut self) {
        if let Err(error) = files::drop_pages(&self.file, 0, 0) {
            self.failure = Some(format!("{}: {error}", self.what));
        }
    }

    fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }
}

/// Reads a block in a task's way, and leaves nothing.
///
/// # Errors
/// Why it cannot be had here.
pub fn try_out(task: &Scan) -> Result<(), Reason> {
    let in_words = |error: SetupError| error.to_string();
    files::fits(&task.dir, task.size.0, "file").map_err(in_words)?;
    let small = Scan { size: Bytes(task.block.0), ..task.clone() };
    let mut scanner = Scanner::new(&small, &mut Filled::default()).map_err(in_words)?;
    scanner.read().map(drop).map_err(|error| format!("{}: {error}", scanner.what).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Nobody;
    impl Latencies for Nobody {
        fn count(&self, _: u64) {}
    }

    #[test]
    fn every_block_comes_from_the_device() {
        let Some(dir) = crate::files::tests::on_a_disk("scans") else { return };
        for io in ScanIo::ALL {
            let task = Scan {
                dir: dir.path().into(),
                io,
                block: Bytes::kib(64),
                size: Bytes::mib(1),
                ..Scan::default()
            };
            if let Err(error) = try_out(&task) {
                assert_eq!(io, ScanIo::Direct, "{error}");
                continue;
            }
            let mut scanner = Scanner::new(&task, &mut Filled::default()).unwrap();
            let before = crate::files::tests::counted("read_bytes");
            // Three times round.
            assert_eq!(scanner.work(48, &Nobody).units, 3 << 20);
            assert_eq!(scanner.failure(), None);
            let read = crate::files::tests::counted("read_bytes") - before;
            assert!(read >= 3 << 20, "{io}: {read} bytes");
            scanner.paused();
            assert_eq!(scanner.failure(), None);
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "no file has a name");
    }
}
