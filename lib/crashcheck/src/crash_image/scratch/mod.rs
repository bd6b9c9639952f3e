//! What a crash leaves, worked out from the first event on for each crash anew: the way it is told
//! to be, and the measure for what is carried on from crash to crash. For tests alone.

mod key;
mod walk;

use std::rc::Rc;

use smallvec::SmallVec;

use crate::bytes::{Bytes, overlay};
use crate::event::{WORD, Write};
use crate::fate::Fate;

const LINE_WORDS: usize = 64 / WORD;

/// How many of a group's stores reached memory: any number between the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Interval {
    lo: u32,
    hi: u32,
}

// A store that touched a word.
#[derive(Debug, Clone, Copy)]
struct Cover {
    order: Order,
    bytes: Bytes,
    mask: u8,
    // The number of the store among all of the run.
    time: u32,
    // How many fences came before it.
    fences: u32,
}

#[derive(Debug, Clone, Copy)]
enum Order {
    // The number of the store in its group.
    Ordinary { group: u32, number: u32 },
    // The number among the non-temporal ones.
    Streamed(u32),
}

// After the `clflush` nothing reaches memory before `need` stores of `group` did. It came behind
// `time` stores.
#[derive(Debug)]
struct Tie {
    group: u32,
    need: u32,
    time: u32,
}

/// The stores of a run up to a crash. What is decided of them is apart from what they are, so that
/// a copy is cheap.
#[derive(Debug)]
pub(crate) struct CrashImage {
    fixed: Rc<Fixed>,
    // By group.
    intervals: Vec<Interval>,
    // `None`: undecided.
    streamed: Vec<Option<bool>>,
}

#[derive(Debug, Default)]
struct Fixed {
    // In order of their words, then of time.
    covers: Vec<Cover>,
    // Words in order, and where their covers begin; one more at the end.
    words: Vec<(usize, u32)>,
    // Of each group.
    lines: Vec<usize>,
    ties: Vec<Tie>,
    // If there are ties: of each group, when its stores came.
    times: Vec<Vec<u32>>,
    // Where each store stands, in order of time.
    stores: Vec<Order>,
}

impl Fixed {
    // How many stores of the group came before, if there are ties.
    fn stores_before(&self, group: usize, time: u32) -> u32 {
        self.times[group].partition_point(|other| *other < time) as u32
    }
}

/// One way in which a word can have come out: what must hold then, and its bytes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Outcome {
    // Of the group of the word's ordinary stores, if it has any.
    interval: Option<(u32, Interval)>,
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
            (Some((_, one)), Some((_, other))) if one == other => true,
            (Some((_, one)), Some((_, next)))
                if self.streamed == other.streamed && next.hi + 1 == one.lo =>
            {
                one.lo = next.lo;
                true
            }
            _ => false,
        }
    }
}

impl Clone for CrashImage {
    fn clone(&self) -> Self {
        let Self { fixed, intervals, streamed } = self;
        Self { fixed: Rc::clone(fixed), intervals: intervals.clone(), streamed: streamed.clone() }
    }

    fn clone_from(&mut self, source: &Self) {
        if !Rc::ptr_eq(&self.fixed, &source.fixed) {
            self.fixed = Rc::clone(&source.fixed);
        }
        self.intervals.clone_from(&source.intervals);
        self.streamed.clone_from(&source.streamed);
    }
}

impl CrashImage {
    /// The words that were stored to, in order.
    pub(crate) fn words(&self) -> impl Iterator<Item = usize> {
        self.fixed
            .words
            .iter()
            .take(self.fixed.words.len().saturating_sub(1))
            .map(|(word, _)| *word)
    }

    fn covers(&self, word: usize) -> &[Cover] {
        let Fixed { words, covers, .. } = &*self.fixed;
        match words.binary_search_by_key(&word, |(word, _)| *word) {
            Ok(number) if number + 1 < words.len() => {
                &covers[words[number].1 as usize..words[number + 1].1 as usize]
            }
            _ => &[],
        }
    }

    /// What was stored to the word, with the number of the store in order of time; `all`, or only
    /// what is not known to be lost.
    pub(crate) fn writes(&self, word: usize, all: bool) -> impl Iterator<Item = (u32, Write)> {
        let there = move |cover: &&Cover| all || self.fate(cover.order) != Fate::Lost;
        self.covers(word)
            .iter()
            .filter(there)
            .map(move |cover| (cover.time, Write { word, bytes: cover.bytes, mask: cover.mask }))
    }

    /// The store to the whole word that is durable and hides all before it, if there is one.
    pub(crate) fn hides(&self, word: usize) -> Option<Write> {
        let first = self.covers(word).first()?;
        let hides = first.mask == 0xff && self.fate(first.order) == Fate::Reached;
        hides.then_some(Write { word, bytes: first.bytes, mask: first.mask })
    }

    /// How many fences came before the last store to the word, if there was one.
    pub(crate) fn fences_before(&self, word: usize) -> Option<u32> {
        self.covers(word).last().map(|cover| cover.fences)
    }

    /// What the run left in the word, if no decision is open on it: bytes, and which of them.
    pub(crate) fn plain(&self, word: usize) -> Option<(Bytes, u8)> {
        let (mut bytes, mut mask) = ([0; WORD], 0);
        for cover in self.covers(word) {
            match self.fate(cover.order) {
                Fate::Reached => {
                    overlay(&mut bytes, cover.bytes, cover.mask);
                    mask |= cover.mask;
                }
                Fate::Lost => {}
                Fate::Either => return None,
            }
        }
        Some((bytes, mask))
    }

    /// Every way in which the word can have come out, given what is decided, and no more decided
    /// than shows; never none.
    pub(crate) fn outcomes(&self, word: usize) -> Vec<Outcome> {
        let covers = self.covers(word);
        let group = covers.iter().find_map(|cover| match cover.order {
            Order::Ordinary { group, .. } => Some((group, self.intervals[group as usize])),
            Order::Streamed(_) => None,
        });
        let mut outcomes = Vec::new();
        self.each_outcome(covers, Outcome { interval: group, ..Outcome::default() }, &mut outcomes);
        outcomes.dedup_by(|other, one| one.takes_in(other));
        // What is decided is settled, so that every count within an interval is possible.
        debug_assert!(
            self.fixed.ties.is_empty()
                || outcomes.iter().all(|outcome| self.clone().decide(outcome))
        );
        outcomes
    }

    // From the last store back, until no byte of the word is open. A loop where one way is left: a
    // word may have been stored to any number of times.
    fn each_outcome(&self, covers: &[Cover], mut so_far: Outcome, outcomes: &mut Vec<Outcome>) {
        for (number, last) in covers.iter().enumerate().rev() {
            if so_far.mask == 0xff {
                break;
            }
            let (may_be_there, may_be_lost) = match last.order {
                Order::Ordinary { number, .. } => {
                    let (_, Interval { lo, hi }) = so_far.interval.expect("the word's group");
                    (number < hi, number >= lo)
                }
                Order::Streamed(number) => {
                    let fate = self.streamed[number as usize];
                    (fate != Some(false), fate != Some(true))
                }
            };
            let both = may_be_there && may_be_lost;
            let decided = |there: bool| {
                let mut outcome = so_far.clone();
                match (last.order, &mut outcome.interval) {
                    (Order::Ordinary { number, .. }, Some((_, interval))) if there => {
                        interval.lo = interval.lo.max(number + 1);
                    }
                    (Order::Ordinary { number, .. }, Some((_, interval))) => {
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
                    self.each_outcome(&covers[..number], with(decided(true)), outcomes);
                    decided(false)
                }
            };
        }
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
        let covers = self.covers(word);
        let group = covers.iter().find_map(|cover| match cover.order {
            Order::Ordinary { group, .. } => Some(self.intervals[group as usize]),
            Order::Streamed(_) => None,
        });
        self.each_value(covers, group.unwrap_or(Interval { lo: 0, hi: 0 }), ([0; WORD], 0), visit)
    }

    fn each_value(
        &self,
        covers: &[Cover],
        Interval { mut lo, mut hi }: Interval,
        (mut bytes, mut mask): (Bytes, u8),
        visit: &mut dyn FnMut(Bytes, u8) -> bool,
    ) -> bool {
        for (number, last) in covers.iter().enumerate().rev() {
            if mask == 0xff {
                break;
            }
            let (may_be_there, may_be_lost, if_there, if_lost) = match last.order {
                Order::Ordinary { number, .. } => {
                    let if_there = Interval { lo: lo.max(number + 1), hi };
                    (number < hi, number >= lo, if_there, Interval { lo, hi: hi.min(number) })
                }
                Order::Streamed(number) => {
                    let fate = self.streamed[number as usize];
                    (
                        fate != Some(false),
                        fate != Some(true),
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
                if !self.each_value(&covers[..number], if_there, (with, mask | last.mask), visit) {
                    return false;
                }
            }
            Interval { lo, hi } = if_lost;
        }
        visit(bytes, mask)
    }

    /// Settles that the word came out so. False if that contradicts what is decided; then this is
    /// of no more use.
    pub(crate) fn decide(&mut self, outcome: &Outcome) -> bool {
        if let Some((group, interval)) = outcome.interval {
            self.intervals[group as usize] = interval;
        }
        for (number, there) in &outcome.streamed {
            self.streamed[*number as usize] = Some(*there);
        }
        self.settle()
    }

    // Draws the conclusions of the ties. One pass does: what a tie brings along came before it, and
    // so concerns no tie that the last store in memory does not; and what it leaves out came after
    // it. Then any count within any one interval is possible: the stores that it asks for came
    // before, and ask for none after it.
    fn settle(&mut self) -> bool {
        let Self { fixed, intervals, .. } = self;
        if fixed.ties.is_empty() {
            return true;
        }
        let last_of = |(times, interval): (&Vec<u32>, &Interval)| {
            Some(times[interval.lo.checked_sub(1)? as usize])
        };
        if let Some(last) = fixed.times.iter().zip(intervals.iter()).filter_map(last_of).max() {
            for tie in fixed.ties.iter().filter(|tie| tie.time <= last) {
                let own = &mut intervals[tie.group as usize];
                own.lo = own.lo.max(tie.need);
            }
        }
        let lost = fixed.ties.iter().filter(|tie| intervals[tie.group as usize].hi < tie.need);
        if let Some(first) = lost.map(|tie| tie.time).min() {
            for (group, interval) in intervals.iter_mut().enumerate() {
                interval.hi = interval.hi.min(fixed.stores_before(group, first));
            }
        }
        intervals.iter().all(|interval| interval.lo <= interval.hi)
    }

    fn fate(&self, order: Order) -> Fate {
        match order {
            Order::Ordinary { group, number } => match self.intervals[group as usize] {
                Interval { lo, .. } if number < lo => Fate::Reached,
                Interval { hi, .. } if number >= hi => Fate::Lost,
                _ => Fate::Either,
            },
            Order::Streamed(number) => match self.streamed[number as usize] {
                Some(true) => Fate::Reached,
                Some(false) => Fate::Lost,
                None => Fate::Either,
            },
        }
    }

    /// Whether nothing is open.
    pub(crate) fn is_settled(&self) -> bool {
        self.intervals.iter().all(|interval| interval.lo == interval.hi)
            && self.streamed.iter().all(|streamed| streamed.is_some())
    }

    /// How many contents of memory this can be, if all that is open is told apart.
    pub(crate) fn images(&self) -> f64 {
        let lines = self.intervals.iter().map(|interval| f64::from(interval.hi - interval.lo + 1));
        let open = self.streamed.iter().filter(|streamed| streamed.is_none()).count();
        lines.product::<f64>() * 2f64.powi(open as i32)
    }

    /// What became of each store, in their order.
    pub(crate) fn fates(&self) -> Vec<Fate> {
        self.fixed.stores.iter().map(|order| self.fate(*order)).collect()
    }

    pub(crate) fn has_ties(&self) -> bool {
        !self.fixed.ties.is_empty()
    }
}
