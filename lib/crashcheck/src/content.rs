//! What a program finds in memory: its own stores, over what earlier runs are known to have left.

use std::ops::Range;

use rustc_hash::FxHashMap;

use crate::bytes::{Bytes, bits, overlay, words_in};
use crate::crash_image::CrashImage;
use crate::event::{WORD, Write};
use crate::trie::Trie;

/// What runs left in a word.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Left {
    /// Where it is known.
    pub bytes: Bytes,
    /// It is not.
    pub open: bool,
    /// A number for what it can be; 0 for a known zero.
    pub key: u64,
}

// A word as a run sees it.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    // What earlier runs left; means something only where `known`.
    below: Bytes,
    // Stored by the run itself.
    own: Bytes,
    // When it was looked up: at another time it says nothing.
    begun: u32,
    known: bool,
    mask: u8,
}

impl Seen {
    // The word, if all bytes of the mask are known.
    #[inline]
    fn find(&self, wanted: u8) -> Option<Bytes> {
        if self.mask == 0 {
            return self.known.then_some(self.below);
        }
        if !self.known && wanted & !self.mask != 0 {
            return None;
        }
        let mut bytes = self.below;
        overlay(&mut bytes, self.own, self.mask);
        Some(bytes)
    }
}

/// Numbers as keys need no defence against made-up collisions.
pub(crate) type Map<V> = FxHashMap<usize, V>;

const PAGE: usize = 64;
/// Pages that are found without a search: of the first 64 MiB of memory.
const NEAR: usize = 1 << 17;

/// Memory as one run sees it: words are looked up in what earlier runs left when they are first
/// touched, and kept at hand.
#[derive(Debug, Default)]
pub(crate) struct Content {
    left: Trie<Left>,
    // What processes stored that died since the machine stopped.
    stored: Option<CrashImage>,
    pages: Vec<[Seen; PAGE]>,
    // Where pages are, plus one: of the first by their numbers, of others by a table.
    near: Vec<u32>,
    far: Map<u32>,
    last: (usize, usize),
    begun: u32,
    // Words that the run stored to, some twice, and words that it came to know.
    stored_to: Vec<usize>,
    learned: Vec<usize>,
}

impl Content {
    /// All zeros, however large memory is.
    pub(crate) fn new() -> Self {
        Self { begun: 1, ..Self::default() }
    }

    /// Begins anew with what earlier runs left, and under what processes stored that died since.
    pub(crate) fn begin(&mut self, left: Trie<Left>, stored: Option<CrashImage>) {
        (self.left, self.stored) = (left, stored);
        self.stored_to.clear();
        self.learned.clear();
        self.begun = self.begun.checked_add(1).unwrap_or_else(|| {
            (self.pages, self.near, self.far, self.last) = Default::default();
            1
        });
    }

    /// Back to where the run began.
    pub(crate) fn rewind(&mut self) {
        while let Some(word) = self.stored_to.pop() {
            let (page, at) = self.place(word);
            let seen = &mut self.pages[page][at];
            (seen.own, seen.mask) = ([0; WORD], 0);
            if self.stored.is_some() {
                // To be looked up again.
                seen.begun = 0;
            }
        }
        while let Some(word) = self.learned.pop() {
            let (page, at) = self.place(word);
            self.pages[page][at].known = false;
        }
    }

    #[inline]
    fn place(&mut self, word: usize) -> (usize, usize) {
        let number = word / PAGE;
        match self.near.get(number) {
            Some(page @ 1..) => (*page as usize - 1, word % PAGE),
            _ => (self.far_or_new(number), word % PAGE),
        }
    }

    #[cold]
    fn far_or_new(&mut self, number: usize) -> usize {
        if self.last.0 == number && number >= NEAR {
            return self.last.1;
        }
        let page = if number < NEAR {
            self.near.resize(self.near.len().max(number + 1), 0);
            &mut self.near[number]
        } else {
            self.far.entry(number).or_default()
        };
        if *page == 0 {
            self.pages.push([Seen::default(); PAGE]);
            *page = self.pages.len() as u32;
        }
        self.last = (number, *page as usize - 1);
        self.last.1
    }

    fn look_up(&self, word: usize) -> Seen {
        let left = self.left.get(word).copied().unwrap_or_default();
        let (own, mask) = self.stored.as_ref().map_or(([0; WORD], 0), |stored| stored.stored(word));
        Seen { below: left.bytes, own, begun: self.begun, known: !left.open, mask }
    }

    #[inline]
    fn seen(&mut self, word: usize) -> &mut Seen {
        let (page, at) = self.place(word);
        if self.pages[page][at].begun != self.begun {
            self.pages[page][at] = self.look_up(word);
        }
        &mut self.pages[page][at]
    }

    /// Returns about how many bytes it takes to keep it that were not kept before; twice, since
    /// pages move as they grow in number.
    pub(crate) fn store(&mut self, write: &Write) -> usize {
        let pages = self.pages.len();
        let died = self.stored.is_some();
        let seen = self.seen(write.word);
        let first = seen.mask == 0 || died;
        overlay(&mut seen.own, write.bytes, write.mask);
        seen.mask |= write.mask;
        if first {
            self.stored_to.push(write.word);
        }
        2 * (self.pages.len() - pages) * size_of::<[Seen; PAGE]>()
    }

    /// The word, if all bytes of the mask are known.
    #[inline]
    pub(crate) fn read(&mut self, word: usize, wanted: u8) -> Option<Bytes> {
        self.seen(word).find(wanted)
    }

    /// The bytes of ranges, one after the other, if all are known.
    pub(crate) fn gather(&mut self, pieces: &[Range<usize>], into: &mut Vec<u8>) -> bool {
        into.clear();
        for piece in pieces {
            // Most are of whole words.
            if piece.start % WORD == 0 && piece.len() % WORD == 0 {
                if !self.gather_words(piece.start / WORD..piece.end / WORD, into) {
                    return false;
                }
                continue;
            }
            for (word, within) in words_in(piece) {
                let Some(bytes) = self.read(word, bits(&within)) else { return false };
                into.extend_from_slice(&bytes[within]);
            }
        }
        true
    }

    fn gather_words(&mut self, words: Range<usize>, into: &mut Vec<u8>) -> bool {
        let mut word = words.start;
        while word < words.end {
            let (page, first) = self.place(word);
            let last = PAGE.min(first + words.end - word);
            for at in first..last {
                if self.pages[page][at].begun != self.begun {
                    self.pages[page][at] = self.look_up(word);
                }
                let Some(bytes) = self.pages[page][at].find(0xff) else { return false };
                into.extend_from_slice(&bytes);
                word += 1;
            }
        }
        true
    }

    /// The run's own stores to a word.
    pub(crate) fn own(&mut self, word: usize) -> (Bytes, u8) {
        let Seen { own, mask, .. } = *self.seen(word);
        (own, mask)
    }

    pub(crate) fn learn(&mut self, word: usize, bytes: Bytes) {
        let seen = self.seen(word);
        debug_assert!(!seen.known);
        (seen.below, seen.known) = (bytes, true);
        self.learned.push(word);
    }

    /// Whether it is known by now what earlier runs left in a word.
    pub(crate) fn is_known(&mut self, word: usize) -> bool {
        self.seen(word).known
    }
}
