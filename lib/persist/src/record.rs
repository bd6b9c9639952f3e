//! Failure-atomic records: a small value that is replaced as a whole, or not at all.
//!
//! Two slots, each with a sequence number and a checksum over it and the value; a new value goes
//! into the slot of the older one, by non-temporal stores under one fence. A crash in the middle
//! leaves that slot torn, which its checksum detects, and the other one as it was.
//!
//! One slot, byte by byte (little-endian):
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 8 | checksum of the rest under the record's seed ([`crate::checksum`]) |
//! | 8 | 8 | sequence number, from 1, below 2^63; odd in the second slot, even in the first |
//! | 16 | N | the value |
//!
//! ```
//! use ringfence_persist::{Mapped, Region, Request, record::Record};
//!
//! let memory = Mapped::new(Region::map(&Request::dram(4096)).unwrap()).unwrap();
//! let mut record = Record::<8>::create(&memory, [0, 256], 7, &[1; 8]);
//! record.write(&memory, &[2; 8]);
//! let (found, value) = Record::<8>::open(&memory, [0, 256], 7).unwrap();
//! assert_eq!((found.sequence(), value), (2, [2; 8]));
//! ```

use std::ops::Range;

use crate::faults::planted;
use crate::{LINE, Memory, checksum};

/// Where a record is, and how often it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<const N: usize> {
    slots: [usize; 2],
    seed: u64,
    sequence: u64,
}

const HEAD: usize = 16;

impl<const N: usize> Record<N> {
    /// Bytes of one slot, a multiple of 64.
    pub const SLOT: usize = (HEAD + N).next_multiple_of(LINE);
    // Values are staged on the stack.
    const FITS: () = assert!(HEAD + N <= STAGE, "a record holds at most 240 bytes");

    /// Makes a record of two slots at these offsets (multiples of 64, apart by at least
    /// [`Self::SLOT`]; by 256 where the medium writes blocks of that size) with its first value,
    /// durable on return. Both slots are written, so that nothing of an earlier use of these bytes
    /// can be taken for a value.
    pub fn create<M: Memory>(memory: &M, slots: [usize; 2], seed: u64, value: &[u8; N]) -> Self {
        let () = Self::FITS;
        let mut record = Self { slots, seed, sequence: 0 };
        for slot in slots {
            if !planted("record-not-cleared") {
                memory.store_nt(slot, &[0; STAGE][..Self::SLOT]);
            }
        }
        if !planted("record-clearing-not-fenced") {
            memory.sfence();
        }
        record.write(memory, value);
        record
    }

    /// Opens a record, and makes its value durable: until then it may only be in a cache. An
    /// interrupted write never becomes a value after that. `None` if neither slot holds a value,
    /// which no crash can cause once the record was created.
    ///
    /// # Panics
    /// If the slots do not lie inside the memory.
    pub fn open<M: Memory>(memory: &M, slots: [usize; 2], seed: u64) -> Option<(Self, [u8; N])> {
        let found = Self::peek(memory, slots, seed)?;
        let of = |sequence: u64| slots[(sequence % 2) as usize];
        let (slot, other) = (of(found.0.sequence), of(found.0.sequence + 1));
        if !planted("record-not-flushed") {
            memory.flush(slot..slot + Self::SLOT);
        }
        // A torn value whose missing words the next write brings, before its own checksum arrives,
        // would be whole.
        let torn =
            Self::sequence_in(memory, slots, other, seed).is_none() && memory.load_u64(other) != 0;
        if torn && !planted("torn-record-not-cleared") {
            memory.store_nt(other, &[0; 8]);
        }
        if !planted("record-flush-not-fenced") {
            memory.sfence();
        }
        Some(found)
    }

    /// As [`open`](Self::open), but writes nothing: what it returns may not be durable.
    pub fn peek<M: Memory>(memory: &M, slots: [usize; 2], seed: u64) -> Option<(Self, [u8; N])> {
        let [even, odd] = slots.map(|slot| Self::sequence_in(memory, slots, slot, seed));
        let sequence = even.max(odd)?;
        let mut value = [0; N];
        memory.load(slots[(sequence % 2) as usize] + HEAD, &mut value);
        Some((Self { slots, seed, sequence }, value))
    }

    // The sequence number in a slot, if the slot is whole.
    fn sequence_in<M: Memory>(
        memory: &M,
        slots: [usize; 2],
        slot: usize,
        seed: u64,
    ) -> Option<u64> {
        let sequence = memory.load_u64(slot + 8);
        let summed = summed(N);
        let whole = memory.verify(
            [slot + summed.start..slot + summed.end, 0..0],
            salted(seed),
            memory.load_u64(slot),
        ) || planted("record-sum-not-checked");
        let belongs = (1..1 << 63).contains(&sequence) && slots[(sequence % 2) as usize] == slot;
        (whole && belongs).then_some(sequence)
    }

    /// Replaces the value, durable on return: one fence. [`Memory::health`] reports whether the
    /// fence held.
    #[track_caller]
    #[inline]
    pub fn write<M: Memory>(&mut self, memory: &M, value: &[u8; N]) {
        self.put(memory, value);
        if !planted("record-not-fenced") {
            memory.sfence();
        }
    }

    /// Replaces the value; the caller fences before anything rests on it, and before the next
    /// write.
    #[track_caller]
    #[inline]
    pub fn put<M: Memory>(&mut self, memory: &M, value: &[u8; N]) {
        self.sequence += if planted("record-in-place") { 2 } else { 1 };
        let mut stage = [0; STAGE];
        stage[8..HEAD].copy_from_slice(&self.sequence.to_le_bytes());
        stage[HEAD..HEAD + N].copy_from_slice(value);
        let sum = checksum::of(&stage[summed(N)], salted(self.seed));
        stage[..8].copy_from_slice(&sum.to_le_bytes());
        memory.store_nt(self.slots[(self.sequence % 2) as usize], &stage[..Self::SLOT]);
    }

    /// How often the record was written.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }
}

const STAGE: usize = 256;

// Which bytes of a slot with a value of so many bytes its checksum is over.
#[inline(always)]
fn summed(value: usize) -> Range<usize> {
    let from = if planted("record-sum-without-sequence") { HEAD } else { 8 };
    from..if planted("record-sum-without-value") { HEAD } else { HEAD + value }
}

#[inline(always)]
fn salted(seed: u64) -> u64 {
    if planted("record-sum-without-seed") { 0 } else { seed }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Mapped, Region, Request};

    fn memory() -> Mapped {
        Mapped::new(Region::map(&Request::dram(4096)).unwrap()).unwrap()
    }

    #[test]
    fn a_torn_slot_leaves_the_older_value() {
        let memory = memory();
        let mut record = Record::<16>::create(&memory, [64, 128], 5, &[1; 16]);
        for round in 2..6u8 {
            let mut before = [0; 4096];
            memory.load(0, &mut before);
            record.write(&memory, &[round; 16]);
            let mut after = [0; 4096];
            memory.load(0, &mut after);
            // Every subset of the words that changed.
            let changed: Vec<usize> =
                (0..512).filter(|w| before[w * 8..][..8] != after[w * 8..][..8]).collect();
            for subset in 0u32..1 << changed.len() {
                let mut torn = before;
                for (_, word) in changed.iter().enumerate().filter(|(i, _)| subset >> i & 1 == 1) {
                    torn[word * 8..][..8].copy_from_slice(&after[word * 8..][..8]);
                }
                memory.store(0, &torn);
                let (_, value) = Record::<16>::open(&memory, [64, 128], 5).unwrap();
                let wanted = if torn == after { round } else { round - 1 };
                assert_eq!(value, [wanted; 16], "words {subset:b} of {}", changed.len());
            }
            memory.store(0, &after);
        }
    }

    #[test]
    fn what_is_no_record_is_none() {
        let memory = memory();
        assert_eq!(Record::<8>::open(&memory, [0, 64], 0), None);
        Record::<8>::create(&memory, [0, 64], 1, &[9; 8]);
        assert_eq!(Record::<8>::open(&memory, [0, 64], 2), None, "another seed");
        assert_eq!(Record::<8>::open(&memory, [64, 0], 1), None, "slots exchanged");
        assert!(Record::<8>::open(&memory, [0, 64], 1).is_some());
    }

    #[test]
    fn an_earlier_use_of_the_bytes_is_forgotten() {
        let memory = memory();
        let mut record = Record::<8>::create(&memory, [0, 64], 1, &[1; 8]);
        (0..9).for_each(|round| record.write(&memory, &[round; 8]));
        Record::<8>::create(&memory, [0, 64], 1, &[7; 8]);
        assert_eq!(Record::<8>::open(&memory, [0, 64], 1).unwrap().1, [7; 8]);
    }
}
