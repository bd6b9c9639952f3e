//! The program's standard output where it is recorded: a pseudo-terminal, so that the C library
//! writes each line at once, and a thread that reads what comes out of it.

use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::JoinHandle;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::fstat;
use rustix::io::{Errno, ioctl_fionbio};
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};

use super::RecordError;

/// Bytes that a program may print.
pub(super) const MOST: usize = 64 << 20;

/// Both ends of a pseudo-terminal.
pub(super) struct Terminal {
    master: OwnedFd,
    slave: OwnedFd,
}

/// What comes out of it.
pub(super) struct Output {
    is_full: Arc<AtomicBool>,
    // The thread ends when this is closed.
    end: PipeWriter,
    thread: JoinHandle<Vec<u8>>,
}

fn failed(source: impl Into<io::Error>) -> RecordError {
    let what = "no pseudo-terminal for the program's standard output".to_owned();
    RecordError::Process { what, source: source.into() }
}

impl Terminal {
    /// A new one, which changes no byte and controls no session.
    pub(super) fn open() -> Result<Self, RecordError> {
        let open = || {
            let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
            let master = openpt(flags)?;
            unlockpt(&master)?;
            let slave = ioctl_tiocgptpeer(&master, flags)?;
            let mut settings = tcgetattr(&slave)?;
            settings.make_raw();
            tcsetattr(&slave, OptionalActions::Now, &settings)?;
            ioctl_fionbio(&master, true)?;
            Ok(Self { master, slave })
        };
        open().map_err(|error: Errno| failed(error))
    }

    /// The device and inode by which the program's descriptors are recognized.
    pub(super) fn identity(&self) -> Result<[u64; 2], RecordError> {
        let about = fstat(&self.slave).map_err(failed)?;
        Ok([about.st_dev, about.st_ino])
    }

    /// The end that the program writes to.
    pub(super) fn output(&self) -> Result<OwnedFd, RecordError> {
        self.slave.try_clone().map_err(failed)
    }

    /// Begins to read, all the time, so that the program never waits for it.
    pub(super) fn read(self) -> Result<Output, RecordError> {
        let (ended, end) = io::pipe().map_err(failed)?;
        let is_full = Arc::new(AtomicBool::new(false));
        let full = Arc::clone(&is_full);
        let thread = std::thread::spawn(move || self.read_all(&ended, &full));
        Ok(Output { is_full, end, thread })
    }

    // The other end stays open here: without any, a read would fail that others may follow.
    fn read_all(&self, ended: &PipeReader, is_full: &AtomicBool) -> Vec<u8> {
        let (mut printed, mut buffer) = (Vec::new(), vec![0; 1 << 16]);
        let mut is_last = false;
        loop {
            match rustix::io::read(&self.master, &mut buffer[..]) {
                Ok(count) => {
                    let room = MOST - printed.len();
                    printed.extend_from_slice(&buffer[..count.min(room)]);
                    if count > room {
                        is_full.store(true, Relaxed);
                    }
                }
                Err(Errno::INTR) => {}
                // The kernel has passed on all that was written, and there is no more.
                Err(Errno::AGAIN) if !is_last => {
                    let mut either = [
                        PollFd::new(&self.master, PollFlags::IN),
                        PollFd::new(ended, PollFlags::IN),
                    ];
                    let waited = poll(&mut either, None);
                    is_last = waited.is_ok() && !either[1].revents().is_empty();
                }
                Err(_) => return printed,
            }
        }
    }
}

impl Output {
    /// Whether the program has printed more than [`MOST`] bytes. What is beyond is lost.
    pub(super) fn is_full(&self) -> bool {
        self.is_full.load(Relaxed)
    }

    /// All that was printed, once nothing prints any more.
    pub(super) fn finish(self) -> Vec<u8> {
        drop(self.end);
        // A thread that panicked has found a bug of ours: so does this one, then.
        self.thread.join().expect("reading does not panic")
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;

    use super::*;

    #[test]
    fn every_byte_comes_out_as_it_was_written() {
        let terminal = Terminal::open().unwrap();
        let mut program = File::from(terminal.output().unwrap());
        let output = terminal.read().unwrap();
        // Among them are those that ask a terminal for something.
        let bytes: Vec<u8> = (0..1u32 << 20).map(|n| (n ^ (n >> 8)) as u8).collect();
        program.write_all(&bytes).unwrap();
        assert!(!output.is_full());
        assert!(output.finish() == bytes);
    }

    #[test]
    fn more_than_is_kept_is_said() {
        let terminal = Terminal::open().unwrap();
        let mut program = File::from(terminal.output().unwrap());
        let output = terminal.read().unwrap();
        let piece = vec![7; 1 << 20];
        (0..MOST >> 20).for_each(|_| program.write_all(&piece).unwrap());
        assert!(!output.is_full());
        program.write_all(&piece).unwrap();
        // Not before the last of it was read.
        while !output.is_full() {
            std::thread::yield_now();
        }
        assert_eq!(output.finish().len(), MOST);
    }
}
