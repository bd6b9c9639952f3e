//! A writer of a log: batch after batch, each durable before the next.

use std::io;
use std::sync::Arc;

use ringfence_machine::clock::Clock;

use super::log::Log;
use super::method::Way;
use crate::files::Buffer;

/// Ticks of one commit, and of what came before it and is not part of it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Took {
    pub commit: u64,
    pub untimed: u64,
}

/// One of the writers of a log.
pub struct Writer {
    log: Arc<Log>,
    pub(super) way: Way,
    clock: &'static Clock,
    pub(super) batch: Buffer,
    pub(super) number: u64,
}

impl Writer {
    /// A writer that commits batches of so many bytes, drawn from a seed.
    pub fn new(log: Arc<Log>, way: Way, bytes: u64, seed: u64) -> Self {
        Self { log, way, clock: Clock::host(), batch: Buffer::new(bytes as usize, seed), number: 0 }
    }

    /// Commits one batch. Waiting for room in the log is not part of it.
    ///
    /// # Errors
    /// Of the kernel's.
    pub fn commit(&mut self) -> io::Result<Took> {
        let begun = self.clock.now();
        let batch = self.batch.get();
        let room = self.log.room(batch.len() as u64)?;
        self.number += 1;
        let stamped = batch.len().min(8);
        batch[..stamped].copy_from_slice(&self.number.to_le_bytes()[..stamped]);
        let start = self.clock.now();
        self.way.commit(batch, room.at)?;
        Ok(Took { commit: self.clock.now() - start, untimed: start - begun })
    }
}
