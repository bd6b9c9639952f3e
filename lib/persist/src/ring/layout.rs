//! The format on the medium, byte by byte. Numbers are little-endian.
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 64 | the **head**, written once |
//! | 256, 512 | 64 each | the **epoch record**: epoch (8 bytes) and start (8) |
//! | 768, 1024 | 64 each | the **cursor record**: position (8) |
//! | 1280 | 8 | `published`, meaningful only while the ring is open |
//! | 1288 | 8 | 1 while the producer waits for room, the same |
//! | 1536 | 8 | `freed`, the same |
//! | 4096 | capacity | the **entries** |
//!
//! The bytes in between are zero when the ring is created, and are not read. Slots and indices are
//! 256 bytes apart: no two share a line, a pair of lines that is prefetched together, or a block of
//! a medium that writes 256 bytes at once.
//!
//! The head:
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 8 | `RINGFNCE` |
//! | 8 | 4 | version of this format, 1 |
//! | 12 | 4 | grain: entries begin and end at multiples of it, 64 or 256 |
//! | 16 | 8 | capacity in bytes, a multiple of the grain |
//! | 24 | 8 | salt, drawn at random when the ring is made |
//! | 32 | 24 | zero |
//! | 56 | 8 | checksum of the 56 bytes before, seed 0 |
//!
//! Records are as in [`crate::record`]; the epoch record's seed is the salt, the cursor record's
//! its complement. An **entry** at position `p` (bytes since the ring was made, a multiple of the
//! grain) begins at offset `4096 + p % capacity` and goes on at 4096 where it meets the end:
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 8 | checksum of the payload, seeded as below |
//! | 8 | 8 | position |
//! | 16 | 8 | epoch |
//! | 24 | 4 | length of the payload in bytes |
//! | 28 | 4 | zero |
//! | 32 | length | the payload, then zeros up to the next multiple of the grain |
//!
//! The seed is salt ^ position * 0x9e3779b97f4a7c15 ^ epoch * 0xbf58476d1ce4e5b9 ^ length *
//! 0x94d049bb133111eb, each product modulo 2^64.

use std::ops::Range;

pub use super::version::VERSION;

use super::error::RingError;
use crate::faults::planted;
use crate::{LINE, Memory, checksum};

/// Bytes before the entries.
pub const HEAD: usize = 4096;
/// Bytes of an entry before its payload.
pub const ENTRY_HEAD: usize = 32;

const MAGIC: [u8; 8] = *b"RINGFNCE";
pub(super) const EPOCH_SLOTS: [usize; 2] = [256, 512];
pub(super) const CURSOR_SLOTS: [usize; 2] = [768, 1024];
pub(super) const PUBLISHED: usize = 1280;
pub(super) const FREED: usize = 1536;

/// The unchanging facts of a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Bytes for entries.
    pub capacity: usize,
    /// Entries begin and end at multiples of it, in bytes.
    pub grain: usize,
    /// The seed of the ring's checksums: a new random number for each ring, since otherwise entries
    /// of an earlier ring in the same memory could pass for its own.
    pub salt: u64,
}

impl Shape {
    /// # Errors
    /// [`RingError::Shape`]: a capacity that is zero or no multiple of the grain, a grain that is
    /// neither 64 nor 256.
    pub fn new(capacity: usize, grain: usize, salt: u64) -> Result<Self, RingError> {
        let shape = Self { capacity, grain, salt };
        match shape.fault() {
            None => Ok(shape),
            Some(fault) => Err(RingError::Shape(fault)),
        }
    }

    fn fault(&self) -> Option<String> {
        if self.grain != 64 && self.grain != 256 {
            return Some(format!("a grain of {} bytes is neither 64 nor 256", self.grain));
        }
        if self.capacity == 0
            || !self.capacity.is_multiple_of(self.grain)
            || self.capacity > isize::MAX as usize / 2
        {
            let grain = self.grain;
            return Some(format!(
                "a capacity of {} bytes is not a multiple of {grain}, from {grain} on",
                self.capacity
            ));
        }
        None
    }

    /// The longest payload: the whole capacity but one entry's head, and no more than a length of
    /// 32 bits says.
    pub fn max_payload(&self) -> usize {
        (self.capacity - ENTRY_HEAD).min(u32::MAX as usize)
    }

    /// Bytes that an entry takes up.
    #[inline]
    pub fn size_of(&self, payload: usize) -> usize {
        (ENTRY_HEAD + payload).next_multiple_of(self.grain)
    }

    /// Where a position is in memory.
    #[inline]
    pub fn offset_of(&self, position: u64) -> usize {
        HEAD + (position % self.capacity as u64) as usize
    }

    /// The one or two ranges of memory that `len` bytes take up from `offset` on, the second
    /// perhaps empty.
    #[inline]
    pub fn pieces(&self, offset: usize, len: usize) -> [Range<usize>; 2] {
        let end = HEAD + self.capacity;
        let offset = if offset >= end { offset - self.capacity } else { offset };
        let first = len.min(end - offset);
        [offset..offset + first, HEAD..HEAD + len - first]
    }

    /// Whether a number can be a position: a multiple of the grain, below 2^63, which 10 GB/s reach
    /// in 29 years.
    #[inline]
    pub fn is_position(&self, number: u64) -> bool {
        number.is_multiple_of(self.grain as u64) && number < 1 << 63
    }

    /// The offset `size` bytes, at most a capacity, behind `offset`.
    #[inline]
    pub fn behind(&self, offset: usize, size: usize) -> usize {
        let end = HEAD + self.capacity;
        if offset + size >= end { offset + size - self.capacity } else { offset + size }
    }

    pub(super) fn write<M: Memory>(&self, memory: &M) {
        let mut line = [0; LINE];
        line[..8].copy_from_slice(&MAGIC);
        line[8..12].copy_from_slice(&VERSION.to_le_bytes());
        line[12..16].copy_from_slice(&(self.grain as u32).to_le_bytes());
        line[16..24].copy_from_slice(&(self.capacity as u64).to_le_bytes());
        line[24..32].copy_from_slice(&self.salt.to_le_bytes());
        let sum = checksum::of(&line[..56], 0);
        line[56..].copy_from_slice(&sum.to_le_bytes());
        memory.store_nt(0, &line);
        if !planted("head-not-fenced") {
            memory.sfence();
        }
    }

    pub(super) fn read<M: Memory>(memory: &M) -> Result<Self, RingError> {
        if memory.len() < HEAD + LINE {
            return Err(RingError::Foreign(format!("{} bytes hold no ring", memory.len())));
        }
        let mut line = [0; LINE];
        memory.load(0, &mut line);
        let half = |at: usize| u32::from_le_bytes(line[at..at + 4].try_into().unwrap());
        let word = |at: usize| u64::from_le_bytes(line[at..at + 8].try_into().unwrap());
        if line == [0; LINE] {
            return Err(RingError::Unfinished);
        }
        if line[..8] != MAGIC {
            return Err(RingError::Foreign("the first 8 bytes are not RINGFNCE".into()));
        }
        if half(8) != VERSION {
            return Err(RingError::Version(half(8)));
        }
        if !memory.verify([0..56, 0..0], 0, word(56)) && !planted("head-sum-not-checked") {
            return Err(RingError::Damaged("the head's checksum is wrong".into()));
        }
        let shape = Self { capacity: word(16) as usize, grain: half(12) as usize, salt: word(24) };
        if let Some(fault) = shape.fault() {
            return Err(RingError::Damaged(fault));
        }
        if shape.capacity > memory.len() - HEAD {
            return Err(RingError::Damaged(format!(
                "{} bytes are there of the {} that the head tells of: the file was cut off",
                memory.len(),
                HEAD + shape.capacity
            )));
        }
        Ok(shape)
    }
}

/// What an entry's head says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// Its place, in bytes since the ring was made.
    pub position: u64,
    /// The ring's epoch in which it was written.
    pub epoch: u64,
    /// Bytes of its payload.
    pub len: u32,
}

impl Entry {
    // Binds the payload to its head. Odd factors (the golden ratio's, and two of SplitMix64's) give
    // no two heads that differ in one field the same seed; recovery compares position and epoch
    // besides.
    #[inline]
    fn seed(&self, salt: u64) -> u64 {
        let salt = if planted("entry-sum-without-salt") { 0 } else { salt };
        let position = if planted("entry-sum-without-position") { 0 } else { self.position };
        let epoch = if planted("entry-sum-without-epoch") { 0 } else { self.epoch };
        let len = if planted("entry-sum-without-length") { 0 } else { self.len };
        salt ^ position.wrapping_mul(0x9e37_79b9_7f4a_7c15)
            ^ epoch.wrapping_mul(0xbf58_476d_1ce4_e5b9)
            ^ u64::from(len).wrapping_mul(0x94d0_49bb_1331_11eb)
    }

    // How many bytes behind the head the checksum is over.
    #[inline(always)]
    fn summed(&self) -> usize {
        let len = self.len as usize;
        match () {
            () if planted("entry-sum-without-payload") => 0,
            () if planted("entry-sum-over-padding") => {
                (ENTRY_HEAD + len).next_multiple_of(LINE) - ENTRY_HEAD
            }
            () => len,
        }
    }

    /// The head of an entry with this payload.
    #[inline]
    pub(super) fn encode(&self, payload: &[u8], salt: u64) -> [u8; ENTRY_HEAD] {
        let mut head = [0; ENTRY_HEAD];
        head[8..16].copy_from_slice(&self.position.to_le_bytes());
        head[16..24].copy_from_slice(&self.epoch.to_le_bytes());
        head[24..28].copy_from_slice(&self.len.to_le_bytes());
        let sum = match () {
            () if planted("entry-sum-without-payload") => checksum::of(&[], self.seed(salt)),
            () if planted("entry-sum-over-padding") => {
                let padding = &[0; LINE][..self.summed() - payload.len()];
                checksum::of_pieces([payload, padding], self.seed(salt))
            }
            () => checksum::of(payload, self.seed(salt)),
        };
        head[..8].copy_from_slice(&sum.to_le_bytes());
        head
    }

    /// The head at `offset`, which is a multiple of the grain, and the checksum it carries.
    #[inline]
    pub(super) fn decode<M: Memory>(memory: &M, offset: usize) -> (Self, u64) {
        let mut head = [0; ENTRY_HEAD];
        memory.load(offset, &mut head);
        let word = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().unwrap());
        (Self { position: word(8), epoch: word(16), len: word(24) as u32 }, word(0))
    }

    /// Whether the payload is the one that the checksum was made for.
    #[inline]
    pub(super) fn is_whole<M: Memory>(
        &self,
        memory: &M,
        offset: usize,
        shape: &Shape,
        sum: u64,
    ) -> bool {
        let pieces = shape.pieces(offset + ENTRY_HEAD, self.summed());
        memory.verify(pieces, self.seed(shape.salt), sum)
    }
}
