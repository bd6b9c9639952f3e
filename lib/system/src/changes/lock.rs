//! Advisory locks, which end with the process that holds them.

use std::fs::File;
use std::io;
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;
use rustix::io::Errno;

const STEP: Duration = Duration::from_millis(20);

/// Takes an advisory lock on an open file (`flock(2)`) if it is not held elsewhere.
///
/// # Errors
/// The errno.
pub fn flock(file: &File, exclusive: bool) -> io::Result<bool> {
    let how = if exclusive {
        FlockOperation::NonBlockingLockExclusive
    } else {
        FlockOperation::NonBlockingLockShared
    };
    match rustix::fs::flock(file, how) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Until something can be taken, or time is up; tried once at least.
///
/// # Errors
/// Those of trying.
pub fn patiently<T, E>(
    until: Instant,
    mut take: impl FnMut() -> Result<Option<T>, E>,
) -> Result<Option<T>, E> {
    loop {
        match take()? {
            Some(taken) => return Ok(Some(taken)),
            None if Instant::now() >= until => return Ok(None),
            None => std::thread::sleep(STEP),
        }
    }
}
