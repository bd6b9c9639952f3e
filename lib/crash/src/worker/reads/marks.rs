//! Which words a command has read.

use std::collections::BTreeSet;
use std::ops::Range;

use rustc_hash::{FxHashMap, FxHashSet};
use serde::{Deserialize, Serialize};

const PAGE: u64 = 4096;
const WORD: u64 = 8;

/// A page of a file: the file's number, and the page's.
pub(super) type Page = (usize, u64);

/// What a command has read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Read {
    /// Words that the recorded program ever stored to, by their places, in the order in which they
    /// were first read.
    pub words: Vec<u32>,
    /// Those of them, in order, that count as read without being known to be.
    pub assumed: Vec<u32>,
    /// Those of them that only functions of `--checksum` read, in order, and in which call each was
    /// first read.
    pub covered: Vec<(u32, u32)>,
    /// The functions, by their numbers, that accessed such words.
    pub called: Vec<usize>,
}

/// What a command has read of the words that the recorded program ever stored to.
#[derive(Debug)]
pub(crate) struct Marks<'s> {
    // Where each lies, in order.
    words: &'s [(usize, u64)],
    // Words that matter, by their pages: how many were not read yet.
    unread: FxHashMap<Page, usize>,
    matters: Vec<bool>,
    // Words that were read, or that the command has overwritten completely.
    is_settled: Vec<bool>,
    // Bytes that the command has written, a bit each.
    written: Vec<u8>,
    read: Vec<u32>,
    assumed: Vec<u32>,
    // Words that are not settled, although a function of `--checksum` has read them: its call.
    covered: FxHashMap<u32, u32>,
    called: BTreeSet<usize>,
    // Pages that are open.
    is_open: FxHashSet<Page>,
}

impl<'s> Marks<'s> {
    /// `open` are the words that matter.
    pub(crate) fn new(words: &'s [(usize, u64)], open: &[u32]) -> Self {
        let (is_settled, written) = (vec![false; words.len()], vec![0; words.len()]);
        let mut matters = vec![false; words.len()];
        let mut unread = FxHashMap::default();
        for place in open {
            let (file, offset) = words[*place as usize];
            matters[*place as usize] = true;
            *unread.entry((file, offset / PAGE)).or_default() += 1;
        }
        Self {
            words,
            unread,
            matters,
            is_settled,
            written,
            read: Vec::new(),
            assumed: Vec::new(),
            covered: FxHashMap::default(),
            called: BTreeSet::new(),
            is_open: FxHashSet::default(),
        }
    }

    fn places(&self, file: usize, from: u64, end: u64) -> Range<usize> {
        let first = self.words.partition_point(|word| *word < (file, from / WORD * WORD));
        let last = self.words.partition_point(|word| *word < (file, end));
        first..last.max(first)
    }

    fn mark(&mut self, place: usize) {
        if self.settle(place) && self.covered.remove(&(place as u32)).is_none() {
            self.read.push(place as u32);
        }
    }

    // A word that only a checksum covers so far: its page stays closed.
    fn cover(&mut self, place: usize, call: u32) {
        let word = place as u32;
        if !self.is_settled[place] && !self.covered.contains_key(&word) {
            self.covered.insert(word, call);
            self.read.push(word);
        }
    }

    /// Functions have accessed words.
    pub(super) fn called(&mut self, functions: &[usize]) {
        self.called.extend(functions);
    }

    // Settles a word; whether it was not settled yet.
    fn settle(&mut self, place: usize) -> bool {
        if std::mem::replace(&mut self.is_settled[place], true) {
            return false;
        }
        let (file, offset) = self.words[place];
        if self.matters[place]
            && let Some(unread) = self.unread.get_mut(&(file, offset / PAGE))
        {
            *unread -= 1;
        }
        true
    }

    fn assume(&mut self, places: Range<usize>) {
        for place in places {
            if !self.is_settled[place] {
                if !self.covered.contains_key(&(place as u32)) {
                    self.assumed.push(place as u32);
                }
                self.mark(place);
            }
        }
    }

    /// Bytes of a file were read, in a call of a function of `--checksum` or elsewhere. What the
    /// command wrote there itself says nothing.
    pub(super) fn read(&mut self, file: usize, from: u64, size: u64, call: Option<u32>) {
        let end = from.saturating_add(size);
        for place in self.places(file, from, end) {
            let offset = self.words[place].1;
            let bytes = (0..WORD).filter(|byte| (from..end).contains(&(offset + byte)));
            let mask = bytes.fold(0u8, |mask, byte| mask | 1 << byte);
            if mask & !self.written[place] != 0 {
                match call {
                    Some(call) => self.cover(place, call),
                    None => self.mark(place),
                }
            }
        }
    }

    /// The command has written there.
    pub(super) fn written(&mut self, file: usize, from: u64, size: u64) {
        let end = from.saturating_add(size);
        for place in self.places(file, from, end) {
            let offset = self.words[place].1;
            let bytes = (0..WORD).filter(|byte| (from..end).contains(&(offset + byte)));
            self.written[place] |= bytes.fold(0u8, |mask, byte| mask | 1 << byte);
            if self.written[place] == 0xff {
                self.settle(place);
            }
        }
    }

    /// A page is opened: all of its words count as read.
    pub(super) fn read_page(&mut self, page: Page) {
        if self.is_open.insert(page) {
            let (file, page) = page;
            self.assume(self.places(file, page * PAGE, (page + 1) * PAGE));
        }
    }

    /// All of a file counts as read.
    pub(super) fn read_file(&mut self, file: usize) {
        for page in self.unread_pages(file, 0, u64::MAX) {
            self.read_page(page);
        }
    }

    /// Everything counts as read.
    pub(super) fn read_all(&mut self) {
        for place in 0..self.words.len() {
            let (file, offset) = self.words[place];
            self.read_page((file, offset / PAGE));
        }
    }

    /// Where it is not known what was read.
    pub(crate) fn all(mut self) -> Read {
        self.read_all();
        self.end()
    }

    pub(super) fn end(mut self) -> Read {
        self.assumed.sort_unstable();
        let mut covered: Vec<(u32, u32)> = self.covered.into_iter().collect();
        covered.sort_unstable();
        let called = self.called.into_iter().collect();
        Read { words: self.read, assumed: self.assumed, covered, called }
    }

    /// Whether words of a page that matter may still be read.
    pub(super) fn is_fine(&self, page: Page) -> bool {
        self.unread.get(&page).is_some_and(|unread| *unread > 0)
    }

    /// Pages of a part of a file of which it is not known whether they are read, in order.
    pub(super) fn unread_pages(&self, file: usize, from: u64, end: u64) -> Vec<Page> {
        let mut pages: Vec<Page> = self.words[self.places(file, from, end)]
            .iter()
            .map(|(_, at)| (file, at / PAGE))
            .collect();
        pages.dedup();
        pages.retain(|page| !self.is_open.contains(page));
        pages
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_first_is_not_read() {
        let words = [(0, 0), (0, 8), (0, 4096), (1, 0)];
        let mut marks = Marks::new(&words, &[0]);
        assert!(marks.is_fine((0, 0)));
        marks.written(0, 8, 8);
        marks.read(0, 8, 8, None);
        assert!(marks.read.is_empty());
        marks.written(0, 0, 4);
        marks.read(0, 2, 8, None);
        assert_eq!(marks.read, [0]);
        assert!(!marks.is_fine((0, 0)));
        marks.read_page((0, 1));
        marks.read_page((0, 1));
        assert_eq!(marks.read, [0, 2]);
        assert_eq!(marks.unread_pages(0, 0, 1 << 20), [(0, 0)]);
        marks.read_all();
        let read = Read { words: vec![0, 2, 3], assumed: vec![2, 3], ..Read::default() };
        assert_eq!(marks.end(), read);
    }

    #[test]
    fn a_word_is_covered_until_it_is_read_elsewhere() {
        let words = [(0, 0), (0, 8), (0, 16), (0, 24), (0, 4096)];
        let mut marks = Marks::new(&words, &[0, 1, 2, 3]);
        marks.read(0, 24, 8, None);
        marks.read(0, 0, 16, Some(1));
        marks.read(0, 0, 32, Some(2));
        assert!(marks.is_fine((0, 0)), "other reads are still of interest");
        marks.read(0, 8, 1, None);
        marks.written(0, 16, 8);
        marks.read_page((0, 1));
        let read = Read {
            words: vec![3, 0, 1, 2, 4],
            assumed: vec![4],
            covered: vec![(0, 1), (2, 2)],
            called: Vec::new(),
        };
        assert_eq!(marks.end(), read);
        let mut marks = Marks::new(&words, &[0]);
        marks.read(0, 0, 8, Some(1));
        marks.read_page((0, 0));
        let read = marks.end();
        assert_eq!((read.words, read.covered), (vec![0, 1, 2, 3], vec![]));
    }
}
