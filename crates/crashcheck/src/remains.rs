//! What one run can leave behind: the instructions up to a crash, and which of their stores may have reached
//! memory, decided only as far as somebody has looked.
//!
//! Ordinary stores fall into groups, within which they reach memory in order, so that a crash leaves a first
//! part of each group: a line is a group, and under eADR all of memory is one. Of each group an interval
//! `lo..=hi` of how many stores reached memory is still possible. A non-temporal store is durable, lost, or
//! undecided, each word for itself. Under Intel's rules a `clflush` ties groups together: whatever store after
//! it reached memory, the stores to its line before it did.

use std::collections::BTreeMap;
use std::rc::Rc;

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
    Ordinary { group: usize, number: usize, write: Write, time: usize },
    // The number among the non-temporal ones.
    Streamed { number: usize, write: Write, time: usize },
}

// After the `clflush` nothing reaches memory before `need` stores of `group` did. What was stored before it: a
// count for each group that there was.
#[derive(Debug)]
struct Tie {
    group: usize,
    need: usize,
    before: Vec<usize>,
}

/// The stores of a run up to a crash. What is decided of them is apart from what they are, so that a copy is
/// cheap.
#[derive(Debug, Clone)]
pub struct Remains {
    fixed: Rc<Fixed>,
    // By group.
    intervals: Vec<Interval>,
    // `None`: undecided.
    streamed: Vec<Option<bool>>,
}

#[derive(Debug, Default)]
struct Fixed {
    covers: BTreeMap<usize, Vec<Cover>>,
    ties: Vec<Tie>,
    // Where each store is found, in order.
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

// The run as it goes by.
struct Walk {
    profile: Profile,
    fixed: Fixed,
    intervals: Vec<Interval>,
    streamed: Vec<Option<bool>>,
    // The group of each line that was stored to.
    groups: BTreeMap<usize, usize>,
    // Of each group, how many stores a flush under way has taken along.
    weak: BTreeMap<usize, usize>,
    strong: BTreeMap<usize, usize>,
}

impl Walk {
    fn step(&mut self, kind: Kind) {
        match kind {
            Kind::Store(write) => self.store(write),
            Kind::Stream(write) => {
                let number = self.streamed.len();
                self.streamed.push(None);
                let time = self.fixed.stores.len();
                self.fixed.stores.push(Where::Streamed(number));
                self.fixed.covers.entry(write.word).or_default().push(Cover::Streamed {
                    number,
                    write,
                    time,
                });
            }
            Kind::Flushopt(line) | Kind::Flush(line) if self.profile != Profile::Eadr => {
                if let Some(group) = self.groups.get(&line).copied() {
                    let count = self.intervals[group].hi;
                    if matches!(kind, Kind::Flushopt(_)) {
                        self.weak.insert(group, count);
                    } else {
                        self.strong.insert(group, count);
                        if self.profile == Profile::IntelAdr {
                            let before = self.intervals.iter().map(|interval| interval.hi).collect();
                            self.fixed.ties.push(Tie { group, need: count, before });
                        }
                    }
                }
            }
            Kind::Flushopt(_) | Kind::Flush(_) | Kind::Mark(_) | Kind::Acknowledge(_) => {}
            Kind::Sfence | Kind::Mfence | Kind::Locked(_) | Kind::LockedOnly => self.fence(kind),
        }
    }

    fn fence(&mut self, kind: Kind) {
        let completes_strong = match self.profile {
            Profile::IntelAdr => true,
            Profile::Amd => matches!(kind, Kind::Sfence | Kind::Mfence),
            Profile::OldAmd => kind == Kind::Mfence,
            Profile::Eadr => false,
        };
        let weak = std::mem::take(&mut self.weak);
        let strong = if completes_strong { std::mem::take(&mut self.strong) } else { BTreeMap::new() };
        for (group, count) in weak.into_iter().chain(strong) {
            let interval = &mut self.intervals[group];
            interval.lo = interval.lo.max(count);
        }
        self.streamed.iter_mut().for_each(|streamed| *streamed = Some(true));
        if let Kind::Locked(write) = kind {
            self.store(write);
        }
        if self.profile == Profile::Eadr {
            self.intervals.iter_mut().for_each(|interval| interval.lo = interval.hi);
        }
    }

    fn store(&mut self, write: Write) {
        let line = if self.profile == Profile::Eadr { 0 } else { write.word / LINE_WORDS };
        let group = *self.groups.entry(line).or_insert_with(|| {
            self.intervals.push(Interval { lo: 0, hi: 0 });
            self.intervals.len() - 1
        });
        let number = self.intervals[group].hi;
        self.intervals[group].hi += 1;
        let time = self.fixed.stores.len();
        self.fixed.stores.push(Where::Ordinary(group, number));
        self.fixed.covers.entry(write.word).or_default().push(Cover::Ordinary { group, number, write, time });
    }
}

impl Remains {
    /// What the events can leave, if the machine stops after the last of them.
    pub fn of(profile: Profile, events: &[Event]) -> Self {
        let mut walk = Walk {
            profile,
            fixed: Fixed::default(),
            intervals: Vec::new(),
            streamed: Vec::new(),
            groups: BTreeMap::new(),
            weak: BTreeMap::new(),
            strong: BTreeMap::new(),
        };
        events.iter().for_each(|event| walk.step(event.kind));
        let Walk { fixed, intervals, streamed, .. } = walk;
        let mut remains = Self { fixed: Rc::new(fixed), intervals, streamed };
        // Completed flushes hold whatever else is decided.
        let consistent = remains.settle();
        debug_assert!(consistent);
        remains
    }

    /// Whether the run stored to this word at all.
    pub fn touches(&self, word: usize) -> bool {
        self.fixed.covers.contains_key(&word)
    }

    /// What the run stored to the word, with the number of the store, in order, whether it reached memory or not.
    pub fn writes(&self, word: usize) -> impl Iterator<Item = (usize, Write)> {
        self.fixed.covers.get(&word).into_iter().flatten().map(|cover| match cover {
            Cover::Ordinary { time, write, .. } | Cover::Streamed { time, write, .. } => (*time, *write),
        })
    }

    /// Every way in which the word can have come out, given what is decided; never none.
    pub fn outcomes(&self, word: usize) -> Vec<Outcome> {
        let covers = self.fixed.covers.get(&word).map_or(&[][..], |covers| covers);
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
                    let now = self.intervals[*group];
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
                        Cover::Streamed { number, write, .. } => {
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
                if self.fixed.ties.is_empty() || self.clone().decide(&outcome) {
                    outcomes.push(outcome);
                }
            }
        }
        outcomes
    }

    /// Settles that the word came out so. False if that contradicts what is decided; then this is of no more use.
    pub fn decide(&mut self, outcome: &Outcome) -> bool {
        if let Some((group, interval)) = outcome.interval {
            self.intervals[group] = interval;
        }
        for (number, there) in &outcome.streamed {
            self.streamed[*number] = Some(*there);
        }
        self.settle()
    }

    // Draws the conclusions of the ties, to a fixed point. Taking every `lo` is then a solution, so that no
    // interval that is left is empty in truth.
    fn settle(&mut self) -> bool {
        let Self { fixed, intervals, .. } = self;
        let mut changed = true;
        while std::mem::take(&mut changed) {
            for tie in &fixed.ties {
                let count = |group: usize| tie.before.get(group).copied().unwrap_or(0);
                let own = intervals[tie.group];
                let later = intervals.iter().enumerate().any(|(group, interval)| interval.lo > count(group));
                if own.lo < tie.need && later {
                    if own.hi < tie.need {
                        return false;
                    }
                    intervals[tie.group].lo = tie.need;
                    changed = true;
                }
                if intervals[tie.group].hi < tie.need {
                    for (group, interval) in intervals.iter_mut().enumerate() {
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
        }
        true
    }

    /// What became of each store, in their order.
    pub fn fates(&self) -> Vec<Fate> {
        let fate = |store: &Where| match *store {
            Where::Ordinary(group, number) => {
                let Interval { lo, hi } = self.intervals[group];
                match number {
                    number if number < lo => Fate::Reached,
                    number if number >= hi => Fate::Lost,
                    _ => Fate::Either,
                }
            }
            Where::Streamed(number) => match self.streamed[number] {
                Some(true) => Fate::Reached,
                Some(false) => Fate::Lost,
                None => Fate::Either,
            },
        };
        self.fixed.stores.iter().map(fate).collect()
    }

    /// A number that is the same for the same possibilities.
    pub fn key(&self, into: &mut impl std::hash::Hasher) {
        use std::hash::Hash;
        for (word, covers) in &self.fixed.covers {
            word.hash(into);
            for cover in covers {
                match cover {
                    Cover::Ordinary { group, number, write, .. } => {
                        let Interval { lo, hi } = self.intervals[*group];
                        // What is lost counts no more, and of what is there only that it is.
                        if *number < hi {
                            (0, write, *group, number.saturating_sub(lo), *number < lo).hash(into);
                        }
                    }
                    Cover::Streamed { number, write, .. } => {
                        if self.streamed[*number] != Some(false) {
                            (1, write, self.streamed[*number]).hash(into);
                        }
                    }
                }
            }
        }
        for tie in self.fixed.ties.iter().filter(|tie| self.intervals[tie.group].lo < tie.need) {
            (tie.group, tie.need, &tie.before, &self.intervals).hash(into);
        }
    }
}
