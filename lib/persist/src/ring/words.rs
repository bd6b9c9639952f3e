//! The rest of a ring's head: the epoch, and words that both sides use.

use super::error::RingError;
use super::index::Shared;
use crate::Memory;

/// The epoch record's value.
#[derive(Debug, Clone, Copy)]
pub(super) struct Epochs {
    pub(super) epoch: u64,
    pub(super) start: u64,
}

impl Epochs {
    pub(super) fn encode(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.epoch.to_le_bytes());
        bytes[8..].copy_from_slice(&self.start.to_le_bytes());
        bytes
    }

    pub(super) fn decode(bytes: [u8; 16]) -> Result<Self, RingError> {
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        // Counted one by one, so that half of the range is never left.
        if word(0) >= 1 << 63 {
            return Err(RingError::Damaged(format!("its epoch, {}, cannot be", word(0))));
        }
        Ok(Self { epoch: word(0), start: word(8) })
    }
}

/// A word of the memory that both sides know.
pub(super) struct Word<'m, M>(pub(super) &'m M, pub(super) usize);

impl<M: Memory> Shared for Word<'_, M> {
    #[inline]
    fn get(&self) -> u64 {
        self.0.load_u64(self.1)
    }
    #[inline]
    fn put(&self, value: u64) {
        self.0.store_u64(self.1, value);
    }
}
