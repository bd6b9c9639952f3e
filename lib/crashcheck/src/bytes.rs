//! The bytes of one word, and masks of some of them.

use std::ops::Range;

use crate::event::WORD;

/// The bytes of a word, of which those of a mask count.
pub(crate) type Bytes = [u8; WORD];

/// Lays the bytes of `mask` over others.
#[inline]
pub(crate) fn overlay(bytes: &mut Bytes, over: Bytes, mask: u8) {
    let wide = wide(mask);
    *bytes =
        ((u64::from_le_bytes(*bytes) & !wide) | (u64::from_le_bytes(over) & wide)).to_le_bytes();
}

/// The words that a range of memory touches, in order, and which bytes of each.
#[inline]
pub(crate) fn words_in(
    range: &Range<usize>,
) -> impl Iterator<Item = (usize, Range<usize>)> + use<> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_widened_byte_by_byte() {
        for mask in 0..=u8::MAX {
            let bytes: Vec<u8> =
                (0..8).map(|i| if mask >> i & 1 == 1 { 0xff } else { 0 }).collect();
            assert_eq!(wide(mask).to_le_bytes(), bytes[..], "{mask:08b}");
        }
    }
}
