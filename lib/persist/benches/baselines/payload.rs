//! Payloads that tell which entry they belong to, and whether they are whole.

use std::hint::black_box;

const WORDS: usize = 8;
const FILL: u64 = 0x9e37_79b9_7f4a_7c15;

/// A payload of whole lines: each line carries the entry's number in its first and last word.
#[derive(Debug)]
pub struct Payload(Vec<u64>);

/// What a reader found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Seen {
    /// Entries read.
    pub entries: u64,
    /// Of an earlier number than the one that was due: left over from a lap before.
    pub stale: u64,
    /// Of several numbers at once, or none.
    pub torn: u64,
    // The number due.
    next: u64,
}

impl Payload {
    /// Of `len` bytes, a multiple of 64.
    pub fn new(len: usize) -> Self {
        assert!(len > 0 && len.is_multiple_of(8 * WORDS), "{len} is not a multiple of 64");
        // One more, so that no whole payload is all zeros.
        Self((1..=len as u64 / 8).map(|word| word.wrapping_mul(FILL)).collect())
    }

    /// The bytes of the entry with this number.
    #[inline]
    pub fn numbered(&mut self, number: u64) -> &[u8] {
        for line in self.0.chunks_exact_mut(WORDS) {
            (line[0], line[WORDS - 1]) = (number, number);
        }
        // Opaque, as a payload that comes from elsewhere is.
        let words: &[u64] = black_box(&self.0);
        // SAFETY: words are bytes.
        unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), words.len() * 8) }
    }
}

impl Seen {
    /// Before the entry with this number.
    pub fn before(number: u64) -> Self {
        Self { next: number, ..Self::default() }
    }

    /// Reads every byte.
    #[inline]
    pub fn look(&mut self, bytes: &[u8]) {
        let word = |at: usize| u64::from_le_bytes(bytes[at * 8..at * 8 + 8].try_into().unwrap());
        let sum = bytes
            .chunks_exact(8)
            .fold(0u64, |sum, word| sum.wrapping_add(u64::from_le_bytes(word.try_into().unwrap())));
        let lines = bytes.len() as u64 / 64;
        let first = word(0);
        // Zeros are what was there before the first lap.
        let whole = sum == sum_of(lines, first) || (sum == 0 && first == 0);
        if !whole || first > self.next {
            self.torn += 1;
        } else if first < self.next || sum == 0 {
            self.stale += 1;
        }
        self.entries += 1;
        self.next += 1;
    }
}

// What the words of a payload sum up to.
#[inline]
fn sum_of(lines: u64, number: u64) -> u64 {
    // Numbers from 1 of the words but the first and last of each line: sums of 8 line + (2 + ... +
    // 7).
    let numbers = 6 * 8 * (lines * (lines - 1) / 2) + 27 * lines;
    numbers.wrapping_mul(FILL).wrapping_add(number.wrapping_mul(2 * lines))
}
