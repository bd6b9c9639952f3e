//! What stores are sorted into: groups, words, and what covers them.

use crate::bytes::Bytes;
use crate::event::WORD;
use crate::list::List;

pub(super) const LINE_WORDS: usize = 64 / WORD;

/// How many of a group's stores reached memory: any number between the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Interval {
    pub(super) lo: u32,
    pub(super) hi: u32,
}

// Stores that reach memory in order. One of which nothing is open is forgotten, and begins anew.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Group {
    pub(super) lo: u32,
    pub(super) hi: u32,
    // Its stores.
    pub(super) all: u32,
    // The time of the first.
    pub(super) since: u32,
}

// A store that touched a word.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cover {
    pub(super) order: Order,
    pub(super) bytes: Bytes,
    pub(super) mask: u8,
    // The number of the store among all of the run.
    pub(super) time: u32,
    // How many fences came before it.
    pub(super) fences: u32,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Order {
    // The number of the store in its group.
    Ordinary(u32),
    // The number among the non-temporal ones since the last fence.
    Streamed(u32),
}

// A word that was stored to.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Word {
    // From the last store to the whole word that is durable on; what lies below can never be seen
    // again.
    pub(super) covers: List<Cover>,
    // What those of them before the time `settled` left for certain, and in which bytes.
    pub(super) base: Bytes,
    pub(super) mask: u8,
    pub(super) settled: u32,
    // The key of what is open, while nothing is decided.
    pub(super) chain: u64,
}

impl Word {
    // The last one first.
    pub(super) fn open(&self) -> impl Iterator<Item = &Cover> {
        self.covers.iter().take_while(|cover| cover.time >= self.settled)
    }

    pub(super) fn is_settled(&self) -> bool {
        self.open().next().is_none()
    }
}

// A non-temporal store that no fence has followed yet.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Stream {
    // The number of its word, plus one.
    pub(super) place: usize,
    // Whether it is in memory; `None`: undecided.
    pub(super) there: Option<bool>,
}

impl Stream {
    pub(super) fn is_there(&self) -> bool {
        self.there == Some(true)
    }
}
