//! Whether stores are flushed before they are overwritten, by the place that stored.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::lines::{Number, touched};
use crate::events::{Action, Event, LINE, Place};

/// What became of a place's stores; one counts once for each line that it touches.
#[derive(Debug, Clone, Copy)]
pub struct Fate {
    /// Stores with bytes that were flushed, overwritten or left dirty.
    pub stores: u64,
    /// Those with bytes that were flushed, or written by `msync` and related calls, before they
    /// were overwritten.
    pub flushed: u64,
    /// Where the first one stored.
    pub first: Place,
    /// Bytes of the first one.
    pub size: u64,
}

// A store of which some bytes are neither flushed nor overwritten: they are a mask.
#[derive(Debug)]
struct Stored {
    number: u32,
    bytes: u64,
    // The event that stored.
    sequence: u64,
}

#[derive(Debug, Default)]
pub struct Fates {
    lines: BTreeMap<Number, Vec<Stored>>,
    /// By the number of the place.
    pub found: FxHashMap<u32, Fate>,
}

impl Fates {
    /// The next event, at the place of this number.
    pub fn step(&mut self, number: u32, event: &Event) {
        let (action, sequence) = (&event.action, event.sequence);
        match action {
            Action::Store { at, bytes } | Action::Locked { stores: Some((at, bytes)) } => {
                self.store(*at, bytes.len() as u64, Some((number, sequence)));
            }
            Action::NonTemporal { at, bytes } | Action::Write { at, bytes } => {
                self.store(*at, bytes.len() as u64, None);
            }
            Action::Flush { at, .. } => self.flush((at.file, at.offset / LINE), None),
            Action::Msync { .. } | Action::Truncate { .. } => {
                let Some((file, bytes)) = action.settles() else { return };
                let (first, end) = ((file, bytes.start / LINE), (file, bytes.end.div_ceil(LINE)));
                let lines: Vec<Number> = match first < end {
                    true => self.lines.range(first..end).map(|(line, _)| *line).collect(),
                    false => Vec::new(),
                };
                match action {
                    Action::Msync { .. } => {
                        lines.into_iter().for_each(|line| self.flush(line, action.began()))
                    }
                    _ => lines.into_iter().for_each(|line| self.forget(line)),
                }
            }
            Action::Locked { stores: None } | Action::Load { .. } | Action::SyncRange { .. } => {}
            Action::Sfence | Action::Mfence | Action::Map { .. } | Action::Unmap { .. } => {}
            Action::Output { .. } => {}
        }
    }

    fn store(&mut self, at: Place, size: u64, by: Option<(u32, u64)>) {
        let end = at.offset.saturating_add(size);
        for line in touched(at, size) {
            let begin = line.1 * LINE;
            let (first, last) = (at.offset.max(begin) - begin, (end - begin).min(LINE));
            let bytes = (u64::MAX >> (LINE - (last - first))) << first;
            let stored = self.lines.entry(line).or_default();
            stored.iter_mut().for_each(|one| one.bytes &= !bytes);
            stored.retain(|one| one.bytes != 0);
            if let Some((number, sequence)) = by {
                stored.push(Stored { number, bytes, sequence });
                let fate = self.found.entry(number).or_insert(Fate {
                    stores: 0,
                    flushed: 0,
                    first: at,
                    size,
                });
                fate.stores += 1;
            } else if stored.is_empty() {
                self.lines.remove(&line);
            }
        }
    }

    // Up to an event, or else everything.
    fn flush(&mut self, line: Number, until: Option<u64>) {
        let all = self.lines.remove(&line).unwrap_or_default();
        let is_later = |one: &Stored| until.is_some_and(|until| one.sequence > until);
        let (later, flushed): (Vec<Stored>, Vec<Stored>) = all.into_iter().partition(is_later);
        for one in flushed {
            self.found.entry(one.number).and_modify(|fate| fate.flushed += 1);
        }
        if !later.is_empty() {
            self.lines.insert(line, later);
        }
    }

    // Bytes that a file no longer has.
    fn forget(&mut self, line: Number) {
        for one in self.lines.remove(&line).into_iter().flatten() {
            self.found.entry(one.number).and_modify(|fate| fate.stores -= 1);
        }
    }
}
