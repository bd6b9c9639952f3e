//! What one run can leave behind: the instructions up to a crash, and which of their stores may have reached
//! memory, decided only as far as somebody has looked.
//!
//! Ordinary stores fall into groups, within which they reach memory in order, so that a crash leaves a first
//! part of each group: a line is a group, and under eADR all of memory is one. Of each group an interval
//! `lo..=hi` of how many stores reached memory is still possible. A non-temporal store is durable, lost, or
//! undecided, each word for itself. Under Intel's rules a `clflush` ties groups together: whatever store after
//! it reached memory, the stores to its line before it did.

use std::collections::BTreeMap;

use crate::event::{Event, Kind, WORD, Write};
use crate::profile::Profile;
use crate::story::Fate;

const LINE_WORDS: usize = 64 / WORD;

/// How many of a group's stores reached memory: any number between the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Interval {
    pub lo: usize,
    pub hi: usize,
}

// A store that touched a word, in the order of the program.
#[derive(Debug, Clone, Copy)]
enum Cover {
    // The group, and the store's number in it.
    Ordinary { group: usize, number: usize, write: Write },
    // The number among the non-temporal ones.
    Streamed { number: usize, write: Write },
}

// After the `clflush` nothing reaches memory before `need` stores of `group` did: (group, count) pairs of every
// group at that moment.
#[derive(Debug, Clone)]
struct Tie {
    group: usize,
    need: usize,
    before: BTreeMap<usize, usize>,
}

/// The stores of a run up to a crash.
#[derive(Debug, Clone)]
pub struct Remains {
    covers: BTreeMap<usize, Vec<Cover>>,
    intervals: BTreeMap<usize, Interval>,
    // None: undecided.
    streamed: Vec<Option<bool>>,
    ties: Vec<Tie>,
    writes: Vec<Write>,
    // Where each of the writes is found above.
    stores: Vec<Where>,
}

#[derive(Debug, Clone, Copy)]
enum Where {
    Ordinary(usize, usize),
    Streamed(usize),
}

/// One way in which a word can have come out: what must hold then, and its bytes.
#[derive(Debug, Clone)]
pub struct Outcome {
    // Of the group of the word's ordinary stores, if it has any.
    interval: Option<(usize, Interval)>,
    streamed: Vec<(usize, bool)>,
    /// The bytes written by this run.
    pub bytes: [u8; WORD],
    /// Which of them were.
    pub mask: u8,
}

impl Remains {
    /// What the events can leave, if the machine stops after the last of them.
    pub fn of(profile: Profile, events: &[Event]) -> Self {
        let mut remains = Self {
            covers: BTreeMap::new(),
            intervals: BTreeMap::new(),
            streamed: Vec::new(),
            ties: Vec::new(),
            writes: Vec::new(),
            stores: Vec::new(),
        };
        // Of each group, how many stores a flush under way has taken along.
        let (mut weak, mut strong) = (BTreeMap::<usize, usize>::new(), BTreeMap::<usize, usize>::new());
        let group_of = |word: usize| if profile == Profile::Eadr { 0 } else { word / LINE_WORDS };
        for event in events {
            match event.kind {
                Kind::Store(write) => remains.store(group_of(write.word), write),
                Kind::Stream(write) => {
                    let number = remains.streamed.len();
                    remains.streamed.push(None);
                    remains.writes.push(write);
                    remains.stores.push(Where::Streamed(number));
                    remains.covers.entry(write.word).or_default().push(Cover::Streamed { number, write });
                }
                Kind::Flushopt(line) if profile != Profile::Eadr => {
                    weak.insert(line, remains.count(line));
                }
                Kind::Flush(line) if profile != Profile::Eadr => {
                    strong.insert(line, remains.count(line));
                    if profile == Profile::IntelAdr {
                        remains.tie(line);
                    }
                }
                Kind::Flushopt(_) | Kind::Flush(_) | Kind::Mark(_) => {}
                Kind::Sfence | Kind::Mfence | Kind::Locked(_) | Kind::LockedOnly => {
                    let completes_strong = match profile {
                        Profile::IntelAdr => true,
                        Profile::Amd => matches!(event.kind, Kind::Sfence | Kind::Mfence),
                        Profile::OldAmd => event.kind == Kind::Mfence,
                        Profile::Eadr => false,
                    };
                    let done = std::mem::take(&mut weak);
                    let more = if completes_strong { std::mem::take(&mut strong) } else { BTreeMap::new() };
                    for (group, count) in done.into_iter().chain(more) {
                        if let Some(interval) = remains.intervals.get_mut(&group) {
                            interval.lo = interval.lo.max(count);
                        }
                    }
                    remains.streamed.iter_mut().for_each(|streamed| *streamed = Some(true));
                    if let Kind::Locked(write) = event.kind {
                        remains.store(group_of(write.word), write);
                    }
                    if profile == Profile::Eadr {
                        remains.intervals.values_mut().for_each(|interval| interval.lo = interval.hi);
                    }
                }
            }
        }
        // Completed flushes hold whatever else is decided.
        let consistent = remains.settle();
        debug_assert!(consistent);
        remains
    }

    fn store(&mut self, group: usize, write: Write) {
        let interval = self.intervals.entry(group).or_insert(Interval { lo: 0, hi: 0 });
        let number = interval.hi;
        interval.hi += 1;
        self.writes.push(write);
        self.stores.push(Where::Ordinary(group, number));
        self.covers.entry(write.word).or_default().push(Cover::Ordinary { group, number, write });
    }

    fn count(&self, group: usize) -> usize {
        self.intervals.get(&group).map_or(0, |interval| interval.hi)
    }

    fn tie(&mut self, group: usize) {
        let need = self.count(group);
        if need > 0 {
            let before = self.intervals.iter().map(|(group, interval)| (*group, interval.hi)).collect();
            self.ties.push(Tie { group, need, before });
        }
    }

    /// Whether the run stored to this word at all.
    pub fn touches(&self, word: usize) -> bool {
        self.covers.contains_key(&word)
    }

    /// Everything that the run stored, in its order, whether it reached memory or not.
    pub fn writes(&self) -> &[Write] {
        &self.writes
    }

    /// Every way in which the word can have come out, given what is decided; never none.
    pub fn outcomes(&self, word: usize) -> Vec<Outcome> {
        let covers = self.covers.get(&word).map_or(&[][..], |covers| covers);
        let mut outcomes = Vec::new();
        // Where the word's ordinary stores stand in their group: all of a word are in one.
        let numbers: Vec<(usize, usize)> = covers
            .iter()
            .filter_map(|cover| match cover {
                Cover::Ordinary { group, number, .. } => Some((*group, *number)),
                Cover::Streamed { .. } => None,
            })
            .collect();
        let undecided: Vec<usize> = covers
            .iter()
            .filter_map(|cover| match cover {
                Cover::Streamed { number, .. } if self.streamed[*number].is_none() => Some(*number),
                _ => None,
            })
            .collect();
        // So many of the word's ordinary stores reached memory.
        for reached in 0..=numbers.len() {
            let interval = match numbers.first() {
                None => None,
                Some((group, _)) => {
                    let now = self.intervals[group];
                    let lo = if reached == 0 { 0 } else { numbers[reached - 1].1 + 1 };
                    let hi = numbers.get(reached).map_or(usize::MAX, |(_, number)| *number);
                    let interval = Interval { lo: lo.max(now.lo), hi: hi.min(now.hi) };
                    if interval.lo > interval.hi {
                        continue;
                    }
                    Some((*group, interval))
                }
            };
            for bits in 0..1u32 << undecided.len() {
                let streamed: Vec<(usize, bool)> =
                    undecided.iter().enumerate().map(|(i, number)| (*number, bits >> i & 1 == 1)).collect();
                let mut outcome = Outcome { interval, streamed, bytes: [0; WORD], mask: 0 };
                let mut ordinary = 0;
                for cover in covers {
                    let (write, there) = match cover {
                        Cover::Ordinary { write, .. } => {
                            ordinary += 1;
                            (write, ordinary <= reached)
                        }
                        Cover::Streamed { number, write } => {
                            let chosen = outcome.streamed.iter().find(|(other, _)| other == number);
                            (write, chosen.map_or(self.streamed[*number] == Some(true), |(_, there)| *there))
                        }
                    };
                    if there {
                        for byte in (0..WORD).filter(|byte| write.mask >> byte & 1 == 1) {
                            outcome.bytes[byte] = write.bytes[byte];
                        }
                        outcome.mask |= write.mask;
                    }
                }
                if self.ties.is_empty() || self.clone().decide(&outcome) {
                    outcomes.push(outcome);
                }
            }
        }
        outcomes
    }

    /// Settles that the word came out so. False if that contradicts what is decided; then this is of no more use.
    pub fn decide(&mut self, outcome: &Outcome) -> bool {
        if let Some((group, interval)) = outcome.interval {
            self.intervals.insert(group, interval);
        }
        for (number, there) in &outcome.streamed {
            self.streamed[*number] = Some(*there);
        }
        self.settle()
    }

    // Draws the conclusions of the ties, to a fixed point. Taking every `lo` is then a solution, so that no
    // interval that is left is empty in truth.
    fn settle(&mut self) -> bool {
        loop {
            let mut changed = false;
            for tie in &self.ties {
                let own = self.intervals[&tie.group];
                let count = |group: &usize| tie.before.get(group).copied().unwrap_or(0);
                if own.lo < tie.need
                    && self.intervals.iter().any(|(group, interval)| interval.lo > count(group))
                {
                    if own.hi < tie.need {
                        return false;
                    }
                    self.intervals.get_mut(&tie.group).expect("it has stores").lo = tie.need;
                    changed = true;
                }
                if self.intervals[&tie.group].hi < tie.need {
                    for (group, interval) in &mut self.intervals {
                        if interval.hi > count(group) {
                            interval.hi = count(group);
                            changed = true;
                        }
                        if interval.lo > interval.hi {
                            return false;
                        }
                    }
                }
            }
            if !changed {
                return true;
            }
        }
    }

    /// What became of each store, in their order.
    pub fn fates(&self) -> Vec<Fate> {
        self.stores
            .iter()
            .map(|store| match store {
                Where::Ordinary(group, number) => {
                    let Interval { lo, hi } = self.intervals[group];
                    if *number < lo {
                        Fate::Reached
                    } else if *number >= hi {
                        Fate::Lost
                    } else {
                        Fate::Either
                    }
                }
                Where::Streamed(number) => match self.streamed[*number] {
                    Some(true) => Fate::Reached,
                    Some(false) => Fate::Lost,
                    None => Fate::Either,
                },
            })
            .collect()
    }

    /// A number that is the same for the same possibilities.
    pub fn key(&self, into: &mut impl std::hash::Hasher) {
        use std::hash::Hash;
        for (word, covers) in &self.covers {
            word.hash(into);
            for cover in covers {
                match cover {
                    Cover::Ordinary { group, number, write } => {
                        let Interval { lo, hi } = self.intervals[group];
                        // Neither what is there for certain under something newer, nor what is lost.
                        if *number < hi {
                            (0, write, number.saturating_sub(lo), *number < lo).hash(into);
                        }
                    }
                    Cover::Streamed { number, write } => {
                        if self.streamed[*number] != Some(false) {
                            (1, write, self.streamed[*number]).hash(into);
                        }
                    }
                }
            }
        }
        for tie in self.ties.iter().filter(|tie| self.intervals[&tie.group].lo < tie.need) {
            (tie.group, tie.need).hash(into);
            tie.before.hash(into);
            self.intervals.hash(into);
        }
    }
}
