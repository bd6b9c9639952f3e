//! Numbers that are the same for the same possibilities.

use smallvec::SmallVec;

use super::parts::{Cover, Interval, Order, Word};
use super::stores::CrashImage;
use crate::bytes::{Bytes, overlay};
use crate::fate::Fate;

/// The finalizer of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
pub(crate) fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// A number for both, in this order.
#[inline]
pub(crate) fn then(key: u64, next: u64) -> u64 {
    // Two zeros are something else than one.
    mix(key.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(next))
}

// What is there for certain, in one piece.
pub(super) fn certain(bytes: Bytes, mask: u8) -> u64 {
    then(1 + u64::from(mask), u64::from_le_bytes(bytes))
}

// What may be there over it.
pub(super) fn over(key: u64, cover: &Cover, reached: bool, lo: u32) -> u64 {
    let place = match cover.order {
        // How many stores of the group more must have reached memory for this one to.
        Order::Ordinary(number) => u64::from(number.saturating_sub(lo)),
        Order::Streamed(_) => u64::MAX,
    };
    then(
        then(then(key, place), u64::from_le_bytes(cover.bytes)),
        u64::from(cover.mask) << 1 | u64::from(reached),
    )
}

/// What can have become of a word.
pub(crate) struct WordKey {
    pub key: u64,
    /// It hides whatever lies below.
    pub hides: bool,
}

impl Word {
    fn key(&self, key: u64, (bytes, mask): (Bytes, u8), open: bool) -> Option<WordKey> {
        let key = if open { key } else { certain(bytes, mask) };
        (open || mask != 0).then_some(WordKey { key, hides: mask == 0xff })
    }
}

impl CrashImage {
    /// What can have become of a word; none where nothing was stored to it, as far as is decided.
    pub(crate) fn word_key(&self, word: usize) -> Option<WordKey> {
        let found = self.words.get(word)?;
        let interval = self.interval(self.group_of(word));
        let mut covers: SmallVec<[&Cover; 8]> = found.open().collect();
        covers.reverse();
        let (mut bytes, mut mask) = (found.base, found.mask);
        let (mut key, mut open) = (0, false);
        for cover in covers {
            match (self.fate(cover.order, interval), open) {
                (Fate::Lost, _) => {}
                (Fate::Reached, false) => {
                    overlay(&mut bytes, cover.bytes, cover.mask);
                    mask |= cover.mask;
                }
                (fate, _) => {
                    if !open {
                        key = certain(bytes, mask);
                        open = true;
                    }
                    let Interval { lo, .. } = interval;
                    key = over(key, cover, fate == Fate::Reached, lo);
                }
            }
        }
        found.key(key, (bytes, mask), open)
    }

    /// The same while nothing is decided, however often the word was stored to.
    pub(crate) fn undecided_key(&self, word: usize) -> Option<WordKey> {
        let found = self.words.get(word)?;
        found.key(found.chain, (found.base, found.mask), !found.is_settled())
    }
}
