//! Numbers that are the same for the same possibilities.

use std::hash::{Hash, Hasher};

use super::{CrashImage, Interval, Order};
use crate::bytes::{Bytes, overlay};
use crate::event::WORD;
use crate::fate::Fate;

impl CrashImage {
    /// Feeds what can have become of a word, of which something is open: what is there for certain
    /// in one piece, then what may be. False if it hides whatever lies below.
    pub(crate) fn word_key(&self, word: usize, into: &mut impl Hasher) -> bool {
        let (mut bytes, mut mask): (Bytes, u8) = ([0; WORD], 0);
        let mut open = false;
        for cover in self.covers(word) {
            match (self.fate(cover.order), open) {
                (Fate::Lost, _) => {}
                (Fate::Reached, false) => {
                    overlay(&mut bytes, cover.bytes, cover.mask);
                    mask |= cover.mask;
                }
                (fate, _) => {
                    if !open {
                        (bytes, mask).hash(into);
                        open = true;
                    }
                    let place = match cover.order {
                        // How many stores of the group more must have reached memory for this one
                        // to.
                        Order::Ordinary { group, number } => {
                            let Interval { lo, .. } = self.intervals[group as usize];
                            (self.fixed.lines[group as usize], number.saturating_sub(lo))
                        }
                        Order::Streamed(_) => (usize::MAX, 0),
                    };
                    (place, fate == Fate::Reached, cover.bytes, cover.mask).hash(into);
                }
            }
        }
        if !open {
            (bytes, mask).hash(into);
        }
        mask != 0xff
    }

    /// Feeds the ties that still say something, with the number of this layer.
    pub(crate) fn ties_key(&self, layer: usize, into: &mut impl Hasher) {
        let open = |group: u32| {
            let Interval { lo, hi } = self.intervals[group as usize];
            (self.fixed.lines[group as usize], lo, hi)
        };
        for tie in
            self.fixed.ties.iter().filter(|tie| self.intervals[tie.group as usize].lo < tie.need)
        {
            let (line, lo, hi) = open(tie.group);
            (layer, line, tie.need - lo, hi - lo).hash(into);
            for group in 0..self.intervals.len() as u32 {
                let (line, lo, hi) = open(group);
                if hi > lo {
                    let before = self.fixed.stores_before(group as usize, tie.time);
                    (line, before.saturating_sub(lo), hi - lo).hash(into);
                }
            }
        }
    }
}
