//! What a program finds in memory: its own stores, over what earlier runs are known to have left.

use std::ops::Range;

use rustc_hash::FxHashMap;

use crate::event::{WORD, Write};

/// The bytes of a word, of which those of a mask count.
pub(crate) type Bytes = [u8; WORD];

// A word as a run sees it.
#[derive(Debug, Clone, Copy)]
struct Seen {
    // What earlier runs left; means something only where `known`.
    below: Bytes,
    known: bool,
    // Stored by the run itself.
    own: Bytes,
    mask: u8,
}

const ZERO: Seen = Seen { below: [0; WORD], known: true, own: [0; WORD], mask: 0 };

/// Memory as one run sees it. What is not listed is zero, and known to be.
#[derive(Debug, Default)]
pub(crate) struct Content {
    words: Vec<Seen>,
    // Words that were not known when the run began and are by now.
    learned: Vec<u32>,
    // Words that the run stored to.
    stored: Vec<u32>,
    // Words that are more than a known zero.
    listed: Vec<u32>,
}

impl Content {
    pub(crate) fn zeros(len: usize) -> Self {
        Self { words: vec![ZERO; len.div_ceil(WORD)], ..Self::default() }
    }

    /// Begins anew with what earlier runs left: words, and their bytes where these are known.
    pub(crate) fn begin(&mut self, left: &[(u32, Option<Bytes>)]) {
        self.rewind();
        for word in self.listed.drain(..) {
            self.words[word as usize] = ZERO;
        }
        for (word, bytes) in left {
            self.words[*word as usize] =
                Seen { below: bytes.unwrap_or_default(), known: bytes.is_some(), ..ZERO };
            self.listed.push(*word);
        }
    }

    /// Back to where the run began.
    pub(crate) fn rewind(&mut self) {
        for word in self.learned.drain(..) {
            self.words[word as usize].known = false;
        }
        for word in self.stored.drain(..) {
            let seen = &mut self.words[word as usize];
            (seen.own, seen.mask) = ([0; WORD], 0);
        }
    }

    pub(crate) fn store(&mut self, write: &Write) {
        let seen = &mut self.words[write.word];
        if seen.mask == 0 {
            self.stored.push(write.word as u32);
        }
        overlay(&mut seen.own, write.bytes, write.mask);
        seen.mask |= write.mask;
    }

    /// The word, if all bytes of the mask are known.
    #[inline]
    pub(crate) fn read(&self, word: usize, wanted: u8) -> Option<Bytes> {
        let seen = &self.words[word];
        if !seen.known && wanted & !seen.mask != 0 {
            return None;
        }
        let mut bytes = seen.below;
        overlay(&mut bytes, seen.own, seen.mask);
        Some(bytes)
    }

    /// The bytes of two ranges, one after the other, if all are known.
    pub(crate) fn gather(&self, pieces: &[Range<usize>; 2], into: &mut Vec<u8>) -> bool {
        into.clear();
        for (word, within) in pieces.iter().flat_map(words_in) {
            let Some(bytes) = self.read(word, bits(&within)) else { return false };
            into.extend_from_slice(&bytes[within]);
        }
        true
    }

    /// The run's own stores to a word.
    pub(crate) fn own(&self, word: usize) -> (Bytes, u8) {
        let Seen { own, mask, .. } = self.words[word];
        (own, mask)
    }

    pub(crate) fn learn(&mut self, word: usize, bytes: Bytes) {
        let seen = &mut self.words[word];
        debug_assert!(!seen.known);
        (seen.below, seen.known) = (bytes, true);
        self.learned.push(word as u32);
    }

    /// What earlier runs left in a word, if that is known by now.
    pub(crate) fn below(&self, word: usize) -> Option<Bytes> {
        let Seen { below, known, .. } = self.words[word];
        known.then_some(below)
    }

    /// What earlier runs left as something else than a known zero, as far as it is known by now.
    pub(crate) fn below_listed(&self) -> impl Iterator<Item = (usize, Option<Bytes>)> {
        self.listed.iter().map(|word| (*word as usize, self.below(*word as usize)))
    }

    /// The words that earlier runs left as something else than zero, and those that this run stored to.
    pub(crate) fn listed(&self) -> impl Iterator<Item = usize> {
        let listed = self.listed.iter().chain(&self.stored);
        listed.map(|word| *word as usize)
    }
}

/// Lays the bytes of `mask` over others.
#[inline]
pub(crate) fn overlay(bytes: &mut Bytes, over: Bytes, mask: u8) {
    let wide = wide(mask);
    *bytes = ((u64::from_le_bytes(*bytes) & !wide) | (u64::from_le_bytes(over) & wide)).to_le_bytes();
}

/// The words that a range of memory touches, in order, and which bytes of each.
#[inline]
pub(crate) fn words_in(range: &Range<usize>) -> impl Iterator<Item = (usize, Range<usize>)> + use<> {
    let (mut at, end) = (range.start, range.end);
    std::iter::from_fn(move || {
        let (word, first) = (at / WORD, at % WORD);
        let len = (WORD - first).min(end.checked_sub(at).filter(|left| *left > 0)?);
        at += len;
        Some((word, first..first + len))
    })
}

/// The mask of some of a word's bytes.
#[inline]
pub(crate) fn bits(within: &Range<usize>) -> u8 {
    (((1u16 << within.len()) - 1) << within.start) as u8
}

/// The bytes of `mask`, others zero.
#[inline]
pub(crate) fn masked(bytes: Bytes, mask: u8) -> Bytes {
    (u64::from_le_bytes(bytes) & wide(mask)).to_le_bytes()
}

// 0xff for each bit.
#[inline]
fn wide(mask: u8) -> u64 {
    if mask == 0xff {
        return u64::MAX;
    }
    // Bit i to the lowest bit of byte i, the last apart since its sum would carry; then filled up.
    let low = (u64::from(mask & 0x7f) * 0x0002_0408_1020_4081) & 0x0001_0101_0101_0101;
    (low | u64::from(mask >> 7) << 56) * 0xff
}

/// Numbers as keys need no defence against those who make up collisions.
pub(crate) type Map<V> = FxHashMap<usize, V>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_widened_byte_by_byte() {
        for mask in 0..=u8::MAX {
            let bytes: Vec<u8> = (0..8).map(|i| if mask >> i & 1 == 1 { 0xff } else { 0 }).collect();
            assert_eq!(wide(mask).to_le_bytes(), bytes[..], "{mask:08b}");
        }
    }
}
