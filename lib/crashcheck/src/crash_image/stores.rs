//! The stores of one run up to a crash, and what can have become of them.

use std::ops::Range;
use std::rc::Rc;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::parts::{Cover, Group, Interval, Order, Stream, Word};
use super::ties::Ties;
use crate::bytes::{Bytes, overlay};
use crate::event::{Event, Kind, WORD, Write};
use crate::fate::Fate;
use crate::list::List;
use crate::trie::Trie;

/// The stores of a run up to a crash. A copy is cheap: it shares all in which it is not decided
/// otherwise.
#[derive(Debug, Clone)]
pub(crate) struct CrashImage {
    pub(super) words: Trie<Word>,
    // By line; under eADR the only one is at 0.
    pub(super) groups: Trie<Group>,
    // Words of a line; under eADR all.
    pub(super) group_words: usize,
    // Those that no fence followed, in order, and how many.
    pub(super) streams: Trie<Stream>,
    pub(super) streamed: u32,
    // Words of ordinary stores that no fence followed, where there is one group.
    pub(super) buffered: List<usize>,
    // How many there were.
    pub(super) stores: u32,
    pub(super) ties: Option<Rc<Ties>>,
}

/// One way in which a word can have come out: what must hold then, and its bytes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Outcome {
    word: usize,
    // Of the group of the word's ordinary stores, if it has any that are open.
    interval: Option<Interval>,
    streamed: SmallVec<[(u32, bool); 2]>,
    /// The bytes written by this run.
    pub bytes: Bytes,
    /// Which of them were.
    pub mask: u8,
}

impl Outcome {
    // Becomes both, if nothing can tell the difference: the same bytes, by a non-temporal store
    // more or less, or by one more or fewer of the stores of the group.
    fn takes_in(&mut self, other: &Self) -> bool {
        if (self.bytes, self.mask) != (other.bytes, other.mask) {
            return false;
        }
        match (&mut self.interval, &other.interval) {
            (None, None) => true,
            (Some(one), Some(other)) if one == other => true,
            (Some(one), Some(next)) if self.streamed == other.streamed && next.hi + 1 == one.lo => {
                one.lo = next.lo;
                true
            }
            _ => false,
        }
    }

    /// Whether it says nothing of ordinary stores, whose order binds other words.
    pub(crate) fn touches_no_group(&self) -> bool {
        self.interval.is_none()
    }
}

impl CrashImage {
    pub(super) fn new(group_words: usize) -> Self {
        Self {
            words: Trie::default(),
            groups: Trie::default(),
            group_words,
            streams: Trie::default(),
            streamed: 0,
            buffered: List::default(),
            stores: 0,
            ties: None,
        }
    }

    /// The words that were stored to, in order.
    #[cfg(test)]
    pub(crate) fn words(&self) -> Vec<usize> {
        let mut words = Vec::new();
        self.words.for_each(&mut |word, _| words.push(word));
        words
    }

    pub(super) fn group_of(&self, word: usize) -> usize {
        word / self.group_words
    }

    pub(super) fn has_one_group(&self) -> bool {
        self.group_words == usize::MAX
    }

    // None of a group of which nothing is open.
    pub(super) fn interval(&self, group: usize) -> Interval {
        self.groups
            .get(group)
            .map_or(Interval { lo: 0, hi: 0 }, |group| Interval { lo: group.lo, hi: group.hi })
    }

    pub(super) fn set_interval(&mut self, group: usize, interval: Interval) {
        if self.interval(group) != interval {
            let group = self.groups.get_mut(group);
            (group.lo, group.hi) = (interval.lo, interval.hi);
        }
    }

    /// What was stored to the word, the first store first, with the number of the store in order of
    /// time; `all`, or only what is not known to be lost.
    pub(crate) fn writes(&self, word: usize, all: bool) -> SmallVec<[(u32, Write); 4]> {
        let Some(found) = self.words.get(word) else { return SmallVec::new() };
        let interval = self.interval(self.group_of(word));
        let there = |cover: &&Cover| all || self.fate_in(found, cover, interval) != Fate::Lost;
        let write =
            |cover: &Cover| (cover.time, Write { word, bytes: cover.bytes, mask: cover.mask });
        let mut writes: SmallVec<_> = found.covers.iter().filter(there).map(write).collect();
        writes.reverse();
        writes
    }

    /// The store to the whole word that is durable and hides all before it, if there is one.
    pub(crate) fn hides(&self, word: usize) -> Option<Write> {
        let found = self.words.get(word)?;
        let first = found.covers.iter().last()?;
        let interval = self.interval(self.group_of(word));
        let hides = first.mask == 0xff && self.fate_in(found, first, interval) == Fate::Reached;
        hides.then_some(Write { word, bytes: first.bytes, mask: first.mask })
    }

    /// How many fences came before the last store to the word, if there was one.
    pub(crate) fn fences_before(&self, word: usize) -> Option<u32> {
        self.words.get(word)?.covers.split().map(|(cover, _)| cover.fences)
    }

    /// What the run left in the word, if no decision is open on it: bytes, and which of them.
    pub(crate) fn plain(&self, word: usize) -> Option<(Bytes, u8)> {
        let (mut bytes, mut mask) = ([0; WORD], 0);
        let Some(found) = self.words.get(word) else { return Some((bytes, mask)) };
        if !found.is_settled() {
            let interval = self.interval(self.group_of(word));
            for cover in found.open() {
                match self.fate(cover.order, interval) {
                    Fate::Reached => {
                        overlay(&mut bytes, cover.bytes, cover.mask & !mask);
                        mask |= cover.mask;
                    }
                    Fate::Lost => {}
                    Fate::Either => return None,
                }
            }
        }
        overlay(&mut bytes, found.base, found.mask & !mask);
        Some((bytes, mask | found.mask))
    }

    /// What the run itself last stored to the word: bytes, and which of them.
    pub(crate) fn stored(&self, word: usize) -> (Bytes, u8) {
        let (mut bytes, mut mask) = ([0; WORD], 0);
        let Some(found) = self.words.get(word) else { return (bytes, mask) };
        for cover in found.open() {
            if mask == 0xff {
                return (bytes, mask);
            }
            overlay(&mut bytes, cover.bytes, cover.mask & !mask);
            mask |= cover.mask;
        }
        overlay(&mut bytes, found.base, found.mask & !mask);
        (bytes, mask | found.mask)
    }

    /// Every way in which the word can have come out, given what is decided, and no more decided
    /// than shows; never none.
    pub(crate) fn outcomes(&self, word: usize) -> Vec<Outcome> {
        let mut outcomes = Vec::new();
        let Some(found) = self.words.get(word) else {
            return vec![Outcome { word, ..Outcome::default() }];
        };
        let ordinary = found.open().any(|cover| matches!(cover.order, Order::Ordinary(_)));
        let interval = ordinary.then(|| self.interval(self.group_of(word)));
        let start = Outcome { word, interval, ..Outcome::default() };
        self.each_outcome(found, &found.covers, start, &mut outcomes);
        outcomes.dedup_by(|other, one| one.takes_in(other));
        // What is decided is settled, so that every count within an interval is possible.
        debug_assert!(
            self.ties.is_none() || outcomes.iter().all(|outcome| self.clone().decide(outcome))
        );
        outcomes
    }

    // From the last store back, until no byte of the word is open. A loop where one way is left: a
    // word may have been stored to any number of times.
    fn each_outcome(
        &self,
        found: &Word,
        mut covers: &List<Cover>,
        mut so_far: Outcome,
        outcomes: &mut Vec<Outcome>,
    ) {
        while let Some((last, earlier)) =
            covers.split().filter(|(last, _)| last.time >= found.settled)
        {
            if so_far.mask == 0xff {
                break;
            }
            covers = earlier;
            let (may_be_there, may_be_lost) = match last.order {
                Order::Ordinary(number) => {
                    let Interval { lo, hi } = so_far.interval.expect("the word's group");
                    (number < hi, number >= lo)
                }
                Order::Streamed(number) => {
                    let there = self.is_there(number);
                    (there != Some(false), there != Some(true))
                }
            };
            let both = may_be_there && may_be_lost;
            let decided = |there: bool| {
                let mut outcome = so_far.clone();
                match (last.order, &mut outcome.interval) {
                    (Order::Ordinary(number), Some(interval)) if there => {
                        interval.lo = interval.lo.max(number + 1);
                    }
                    (Order::Ordinary(number), Some(interval)) => {
                        interval.hi = interval.hi.min(number)
                    }
                    (Order::Streamed(number), _) if both => outcome.streamed.push((number, there)),
                    _ => {}
                }
                outcome
            };
            let with = |mut outcome: Outcome| {
                overlay(&mut outcome.bytes, last.bytes, last.mask & !outcome.mask);
                outcome.mask |= last.mask;
                outcome
            };
            so_far = match (may_be_there, may_be_lost) {
                (true, false) => with(decided(true)),
                (false, _) => decided(false),
                (true, true) => {
                    self.each_outcome(found, earlier, with(decided(true)), outcomes);
                    decided(false)
                }
            };
        }
        overlay(&mut so_far.bytes, found.base, found.mask & !so_far.mask);
        so_far.mask |= found.mask;
        outcomes.push(so_far);
    }

    /// What can have been written of the word, as [`outcomes`](Self::outcomes) without what follows
    /// from each; in order, each once.
    pub(crate) fn values(&self, word: usize) -> SmallVec<[(Bytes, u8); 4]> {
        let mut values = SmallVec::new();
        self.all_values(word, &mut |bytes, mask| {
            values.push((bytes, mask));
            true
        });
        values.sort_unstable();
        values.dedup();
        values
    }

    /// The same, one after the other and perhaps again, as long as `visit` says so: whether it did
    /// to the end.
    pub(crate) fn all_values(&self, word: usize, visit: &mut dyn FnMut(Bytes, u8) -> bool) -> bool {
        let Some(found) = self.words.get(word) else { return visit([0; WORD], 0) };
        let interval = self.interval(self.group_of(word));
        self.each_value(found, &found.covers, interval, ([0; WORD], 0), visit)
    }

    fn each_value(
        &self,
        found: &Word,
        mut covers: &List<Cover>,
        Interval { mut lo, mut hi }: Interval,
        (mut bytes, mut mask): (Bytes, u8),
        visit: &mut dyn FnMut(Bytes, u8) -> bool,
    ) -> bool {
        while let Some((last, earlier)) =
            covers.split().filter(|(last, _)| last.time >= found.settled)
        {
            if mask == 0xff {
                break;
            }
            covers = earlier;
            let (may_be_there, may_be_lost, if_there, if_lost) = match last.order {
                Order::Ordinary(number) => {
                    let if_there = Interval { lo: lo.max(number + 1), hi };
                    (number < hi, number >= lo, if_there, Interval { lo, hi: hi.min(number) })
                }
                Order::Streamed(number) => {
                    let there = self.is_there(number);
                    (
                        there != Some(false),
                        there != Some(true),
                        Interval { lo, hi },
                        Interval { lo, hi },
                    )
                }
            };
            if may_be_there {
                let mut with = bytes;
                overlay(&mut with, last.bytes, last.mask & !mask);
                if !may_be_lost {
                    (bytes, mask) = (with, mask | last.mask);
                    Interval { lo, hi } = if_there;
                    continue;
                }
                if !self.each_value(found, earlier, if_there, (with, mask | last.mask), visit) {
                    return false;
                }
            }
            Interval { lo, hi } = if_lost;
        }
        overlay(&mut bytes, found.base, found.mask & !mask);
        visit(bytes, mask | found.mask)
    }

    /// Settles that the word came out so. False if that contradicts what is decided; then this is
    /// of no more use.
    pub(crate) fn decide(&mut self, outcome: &Outcome) -> bool {
        if let Some(interval) = outcome.interval {
            self.set_interval(self.group_of(outcome.word), interval);
        }
        for (number, there) in &outcome.streamed {
            self.streams.get_mut(*number as usize).there = Some(*there);
        }
        self.settle()
    }

    /// Whether a word came out so, where all of it is decided.
    pub(crate) fn has(&self, outcome: &Outcome) -> bool {
        let own = self.interval(self.group_of(outcome.word));
        let is_within = |all: Interval| all.lo <= own.lo && own.hi <= all.hi;
        let is_there = |(number, there): &(u32, bool)| self.is_there(*number) == Some(*there);
        outcome.interval.is_none_or(is_within) && outcome.streamed.iter().all(is_there)
    }

    pub(crate) fn is_there(&self, number: u32) -> Option<bool> {
        self.streams.get(number as usize).and_then(|stream| stream.there)
    }

    fn fate_in(&self, found: &Word, cover: &Cover, interval: Interval) -> Fate {
        if cover.time < found.settled { Fate::Reached } else { self.fate(cover.order, interval) }
    }

    pub(super) fn fate(&self, order: Order, Interval { lo, hi }: Interval) -> Fate {
        match order {
            Order::Ordinary(number) if number < lo => Fate::Reached,
            Order::Ordinary(number) if number >= hi => Fate::Lost,
            Order::Ordinary(_) => Fate::Either,
            Order::Streamed(number) => match self.is_there(number) {
                Some(true) => Fate::Reached,
                Some(false) => Fate::Lost,
                None => Fate::Either,
            },
        }
    }

    /// How many stores are lost, and how many are in memory or not.
    pub(crate) fn lost_and_open(&self) -> (usize, usize) {
        let (mut lost, mut open) = (0, 0);
        self.groups.for_each(&mut |_, group| {
            lost += (group.all - group.hi) as usize;
            open += (group.hi - group.lo) as usize;
        });
        self.streams.for_each(&mut |_, stream| {
            lost += usize::from(stream.there == Some(false));
            open += usize::from(stream.there.is_none());
        });
        (lost, open)
    }

    /// How many stores the run did.
    pub(crate) fn stores(&self) -> usize {
        self.stores as usize
    }

    /// Groups of which something is open, in order.
    pub(crate) fn open_groups(&self) -> Vec<usize> {
        let mut open = Vec::new();
        self.groups.for_each(&mut |number, group| {
            if group.hi > group.lo {
                open.push(number);
            }
        });
        open
    }

    /// Non-temporal stores that are open, by their numbers.
    pub(crate) fn open_streams(&self) -> Vec<u32> {
        let mut open = Vec::new();
        self.streams.for_each(&mut |number, stream| {
            if stream.there.is_none() {
                open.push(number as u32);
            }
        });
        open
    }

    /// Where a group lies.
    pub(crate) fn bytes_of_group(&self, group: usize) -> Range<usize> {
        let bytes = self.group_words.saturating_mul(WORD);
        group.saturating_mul(bytes)..(group + 1).saturating_mul(bytes)
    }

    /// The word that a non-temporal store is to.
    pub(crate) fn word_of_stream(&self, number: u32) -> usize {
        self.streams.get(number as usize).map_or(0, |stream| stream.place - 1)
    }

    /// In how many ways a non-temporal store can have come out.
    pub(crate) fn ways_of_stream(&self, number: u32) -> u32 {
        if self.is_there(number).is_some() { 1 } else { 2 }
    }

    /// How many of a group's stores can have reached memory.
    pub(crate) fn counts(&self, group: usize) -> Range<u32> {
        let Interval { lo, hi } = self.interval(group);
        lo..hi + 1
    }

    /// Settles that so many did, which [`counts`](Self::counts) has to allow.
    pub(crate) fn decide_group(&mut self, group: usize, count: u32) {
        self.set_interval(group, Interval { lo: count, hi: count });
        let consistent = self.settle();
        debug_assert!(consistent);
    }

    /// Settles that a non-temporal store did, or not.
    pub(crate) fn decide_stream(&mut self, number: u32, there: bool) {
        if self.is_there(number).is_none() {
            self.streams.get_mut(number as usize).there = Some(there);
        }
    }

    /// What became of each store of these runs, of which this was made, in their order; the last
    /// run first.
    pub(crate) fn fates<'e>(&self, runs: impl Iterator<Item = &'e [Event]>) -> Vec<Fate> {
        self.fates_of(runs.flat_map(|run| run.iter().rev().map(|event| event.kind)))
    }

    /// The same for instructions, the last one first.
    pub(crate) fn fates_of(&self, kinds: impl Iterator<Item = Kind>) -> Vec<Fate> {
        // From the last one back: what is open of a group are its last stores.
        let mut numbers: FxHashMap<usize, u32> = FxHashMap::default();
        let mut streams = self.streamed;
        let fate = |kind: Kind| {
            let write = kind.write()?;
            let group = self.group_of(write.word);
            let (number, order): (&mut u32, fn(u32) -> Order) = match kind {
                Kind::Stream(_) => (&mut streams, Order::Streamed),
                Kind::Store(_) | Kind::Locked(_) => {
                    let all = || self.groups.get(group).map_or(0, |group| group.all);
                    (numbers.entry(group).or_insert_with(all), Order::Ordinary)
                }
                // They store nothing.
                Kind::Flushopt(_) | Kind::Flush(_) | Kind::Sfence | Kind::Mfence => return None,
                Kind::LockedOnly | Kind::Mark(_) | Kind::Acknowledge(_) => return None,
            };
            let Some(before) = number.checked_sub(1) else { return Some(Fate::Reached) };
            *number = before;
            Some(self.fate(order(before), self.interval(group)))
        };
        let mut fates: Vec<Fate> = kinds.filter_map(fate).collect();
        fates.reverse();
        fates
    }

    /// Whether nothing is decided in one that is not in the other.
    pub(crate) fn is_decided_as(&self, other: &Self) -> bool {
        self.groups.is(&other.groups) && self.streams.is(&other.streams)
    }

    /// Words of which another may have become, or become known, between two that differ only in
    /// what is decided.
    pub(crate) fn changed(&self, other: &Self, visit: &mut impl FnMut(usize)) {
        self.groups.unshared(&other.groups, &mut |group| {
            if self.interval(group) != other.interval(group) {
                if self.has_one_group() {
                    self.buffered.iter().for_each(|word| visit(*word));
                } else {
                    let words = self.group_words;
                    (group * words..(group + 1) * words).for_each(&mut *visit);
                }
            }
        });
        self.streams.unshared(&other.streams, &mut |number| {
            if self.streams.get(number) != other.streams.get(number)
                && let Some(stream) = self.streams.get(number)
            {
                visit(stream.place - 1);
            }
        });
    }
}
