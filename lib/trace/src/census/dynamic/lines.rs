//! The stores to each line that are not durable yet.

use std::collections::BTreeMap;
use std::ops::Range;

use super::key::Key;
use crate::events::{LINE, Place};

/// A line: its file, and its number in it.
pub type Number = (u32, u64);

/// The stores to a line that are not durable yet.
#[derive(Debug, Clone, Default)]
pub struct Line {
    /// Something was stored since the last flush.
    pub dirty: Option<Dirty>,
    // The event that did.
    stored: u64,
    /// What no fence has completed: of each thread one flush that had something to write back, and
    /// one non-temporal store, the last of each.
    pub pending: Vec<Pending>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dirty {
    /// By an instruction at this place.
    Stored(Key),
    /// By the kernel.
    Written,
}

#[derive(Debug, Clone, Copy)]
pub struct Pending {
    pub thread: u32,
    pub sequence: u64,
    pub key: Key,
    /// Or else a non-temporal store.
    pub is_flush: bool,
}

/// All lines with stores that are not durable yet. What is durable is forgotten.
#[derive(Debug, Default)]
pub struct Lines {
    all: BTreeMap<Number, Line>,
    dirty: u64,
    /// Dirty lines at once, at most.
    pub most_dirty: u64,
}

/// What a flush found.
#[derive(Debug, Clone, Copy)]
pub struct Found {
    /// Something was stored since the last flush.
    pub dirty: bool,
    /// The same thread had flushed it, with no fence since.
    pub again: bool,
    /// Another thread had.
    pub others: bool,
}

impl Lines {
    /// Something was stored to a line: the last store is the one that a flush is expected of.
    pub fn store(&mut self, number: Number, sequence: u64, dirty: Dirty) {
        let line = self.all.entry(number).or_default();
        line.stored = sequence;
        if line.dirty.replace(dirty).is_none() {
            self.dirty += 1;
            self.most_dirty = self.most_dirty.max(self.dirty);
        }
    }

    /// A non-temporal store.
    pub fn stream(&mut self, number: Number, pending: Pending) {
        put(&mut self.all.entry(number).or_default().pending, pending);
    }

    /// A flush.
    pub fn flush(&mut self, number: Number, pending: Pending) -> Found {
        let Some(line) = self.all.get_mut(&number) else {
            return Found { dirty: false, again: false, others: false };
        };
        let flushed = |own| {
            let mut flushes = line.pending.iter().filter(|one| one.is_flush);
            flushes.any(|one| (one.thread == pending.thread) == own)
        };
        let found =
            Found { dirty: line.dirty.is_some(), again: flushed(true), others: flushed(false) };
        // A flush of a clean line is complete before it begins.
        if found.dirty || found.others {
            put(&mut line.pending, pending);
        }
        self.dirty -= u64::from(line.dirty.take().is_some());
        found
    }

    /// A thread's fence completes what it had flushed and stored past the caches in this line, and
    /// with it every flush before.
    pub fn fence(&mut self, number: Number, thread: u32) {
        let Some(line) = self.all.get_mut(&number) else { return };
        let own = line.pending.iter().filter(|one| one.thread == thread && one.is_flush);
        let flushed = own.map(|one| one.sequence).max();
        line.pending.retain(|one| {
            let before = one.is_flush && flushed.is_some_and(|flushed| one.sequence <= flushed);
            one.thread != thread && !before
        });
        if line.dirty.is_none() && line.pending.is_empty() {
            self.all.remove(&number);
        }
    }

    /// All of these bytes of a file are durable, or are no more: what was done up to an event, or
    /// else everything.
    pub fn settle(&mut self, file: u32, bytes: Range<u64>, until: Option<u64>) {
        let (first, end) = ((file, bytes.start / LINE), (file, bytes.end.div_ceil(LINE)));
        if first >= end {
            return;
        }
        let numbers: Vec<Number> = self.all.range(first..end).map(|(number, _)| *number).collect();
        let is_later = |sequence: u64| until.is_some_and(|until| sequence > until);
        for number in numbers {
            let Some(line) = self.all.get_mut(&number) else { continue };
            if line.dirty.is_some() && !is_later(line.stored) {
                line.dirty = None;
                self.dirty -= 1;
            }
            line.pending.retain(|pending| is_later(pending.sequence));
            if line.dirty.is_none() && line.pending.is_empty() {
                self.all.remove(&number);
            }
        }
    }

    /// The remaining lines.
    pub fn into_lines(self) -> impl Iterator<Item = Line> {
        self.all.into_values()
    }
}

fn put(all: &mut Vec<Pending>, new: Pending) {
    let same = |one: &&mut Pending| one.thread == new.thread && one.is_flush == new.is_flush;
    match all.iter_mut().find(same) {
        Some(old) => *old = new,
        None => all.push(new),
    }
}

/// The lines that some bytes touch.
pub fn touched(at: Place, size: u64) -> impl Iterator<Item = Number> + use<> {
    let lines = at.offset / LINE..at.offset.saturating_add(size).div_ceil(LINE);
    lines.map(move |line| (at.file, line))
}
