//! Locks for opening, pushing and popping: on bytes of the ring's file, beyond anything that is
//! stored there.
//!
//! They are open file description locks (fcntl(2), `F_OFD_SETLK`): the kernel gives them back when
//! the last descriptor closes, however the process ends, and they hold between two opens within one
//! process too. A child that is forked without exec shares its parent's: it must not use the ring.
//! One that is about to exec shares them for a moment; a process that opens the ring then finds it
//! open, with indices that are right.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::error::{RingError, Role};
use crate::kernel::{Lock, lock_byte};

// An open holds OPENING meanwhile, and LIFE (shared) as long as it has the ring open.
const LIFE: i64 = i64::MAX - 16;
const OPENING: i64 = LIFE + 1;
const ROLES: i64 = LIFE + 2;

/// The locks of one open ring. Memory without a file is one process's alone: nothing to lock but
/// the seats.
#[derive(Debug, Default)]
pub(super) struct Locks {
    file: Option<File>,
    taken: [AtomicBool; 2],
}

/// A role, held until dropped.
#[derive(Debug)]
pub(super) struct Seat {
    locks: Arc<Locks>,
    role: Role,
}

impl Locks {
    /// Opens: `recover` runs only if the ring is not open elsewhere, and it cannot be opened
    /// elsewhere meanwhile.
    pub(super) fn open<T>(
        file: Option<File>,
        recover: impl FnOnce() -> Result<T, RingError>,
    ) -> Result<(Self, Option<T>), RingError> {
        let locks = Self { file, ..Self::default() };
        locks.lock(OPENING, Lock::Exclusive, true).map_err(RingError::Lock)?;
        let alone = locks.lock(LIFE, Lock::Exclusive, false).map_err(RingError::Lock)?;
        let recovered = if alone { Some(recover()?) } else { None };
        locks.lock(LIFE, Lock::Shared, true).map_err(RingError::Lock)?;
        locks.lock(OPENING, Lock::None, false).map_err(RingError::Lock)?;
        Ok((locks, recovered))
    }

    pub(super) fn seat(self: &Arc<Self>, role: Role) -> Result<Seat, RingError> {
        if self.taken[role as usize].swap(true, Ordering::AcqRel) {
            return Err(RingError::Taken(role));
        }
        // From here on the seat gives it back.
        let seat = Seat { locks: self.clone(), role };
        match self.lock(ROLES + role as i64, Lock::Exclusive, false) {
            Ok(true) => Ok(seat),
            Ok(false) => Err(RingError::Taken(role)),
            Err(error) => Err(RingError::Lock(error)),
        }
    }

    // Whether the lock was got.
    fn lock(&self, byte: i64, kind: Lock, wait: bool) -> io::Result<bool> {
        let Some(file) = &self.file else { return Ok(true) };
        lock_byte(file, byte, kind, wait)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        // Failing leaves the lock until the file is closed, which nothing here can better.
        _ = self.locks.lock(ROLES + self.role as i64, Lock::None, false);
        self.locks.taken[self.role as usize].store(false, Ordering::Release);
    }
}
