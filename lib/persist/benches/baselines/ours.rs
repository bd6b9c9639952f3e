//! The library's ring behind the traits of the comparison.

use std::ops::Range;

use ringfence_persist::Mapped;
use ringfence_persist::ring::{Consumer, Producer, RingError};

use super::payload::Payload;
use super::{Reader, Writer};

const WORKS: &str = "a ring in memory that nobody else uses works";

impl Writer for Producer<Mapped> {
    #[inline]
    fn push(&mut self, payload: &[u8]) {
        loop {
            match self.try_push(payload) {
                Err(RingError::Full) => std::hint::spin_loop(),
                other => return other.expect(WORKS),
            }
        }
    }

    #[inline]
    fn push_all(&mut self, numbers: Range<u64>, payload: &mut Payload) {
        let mut batch = self.batch().expect(WORKS);
        for number in numbers {
            let bytes = payload.numbered(number);
            while let Err(error) = batch.push(bytes) {
                assert!(matches!(error, RingError::Full), "{error}");
                std::hint::spin_loop();
            }
        }
        batch.commit().expect(WORKS);
    }
}

/// Pops lazily, and makes the cursor durable once in so many entries.
#[derive(Debug)]
pub struct Lazy {
    /// The ring's side.
    pub consumer: Consumer<Mapped>,
    /// Entries between two commits.
    pub every: u64,
    /// Of them popped since the last.
    pub popped: u64,
}

impl Reader for Lazy {
    #[inline]
    fn take(&mut self, mut look: impl FnMut(&[u8])) -> bool {
        let Some(entry) = self.consumer.try_read().expect(WORKS) else { return false };
        look(&entry);
        entry.pop().expect(WORKS);
        self.popped += 1;
        if self.popped == self.every {
            self.popped = 0;
            self.consumer.commit().expect(WORKS);
        }
        true
    }
}
