//! One run on memory that crashes may have left in any of many states: what it did, and what has been decided
//! of what it found.

mod crash;

use std::cell::RefCell;
use std::rc::Rc;

use rustc_hash::FxHashSet;
use smallvec::SmallVec;

use crate::choices::Choices;
use crate::content::{Bytes, Content, masked, overlay};
use crate::event::{At, Event, Kind, WORD};
use crate::fix::Edit;
use crate::nots::{self, Not};
use crate::profile::Profile;
use crate::remains::{Outcome, Remains};
use crate::ways;

/// What a crash leaves: something of which much may be open.
#[derive(Debug)]
pub(crate) struct State {
    /// What each run left, the first one first, over zeros.
    pub layers: Vec<Remains>,
    /// Words that are not known to be zero, and their bytes where these are known.
    pub left: Vec<(u32, Option<Bytes>)>,
    pub nots: Vec<Not>,
    pub marks: Vec<u64>,
    /// What was done, run by run.
    pub runs: Vec<Ended>,
    /// What was done since the last time that the machine stopped: runs that were killed, whose stores are all
    /// there, but of which much may be in caches.
    pub pending: Rc<[Event]>,
}

/// A run that is over.
#[derive(Debug, Clone)]
pub(crate) struct Ended {
    // Of the whole run; shared by all that end it.
    pub events: Rc<[Event]>,
    /// So many of them were done.
    pub len: usize,
    /// Only the process ended, and not the machine.
    pub killed: bool,
}

/// Something that a run read, and where: told in stories.
#[derive(Debug, Clone)]
pub(crate) struct Read {
    pub at: At,
    /// So many instructions of the run came before it.
    pub events: usize,
    pub what: What,
}

#[derive(Debug, Clone)]
pub(crate) enum What {
    Load(usize, Vec<u8>),
    Verify([std::ops::Range<usize>; 2], bool),
}

impl Ended {
    pub(crate) fn events(&self) -> &[Event] {
        &self.events[..self.len]
    }
}

#[derive(Debug)]
pub(crate) struct Run {
    pub profile: Profile,
    pub len: usize,
    pub strong_flushes: bool,
    pub edit: Option<Edit>,
    pub layers: Vec<Remains>,
    pub content: Content,
    pub nots: Vec<Not>,
    pub marks: Vec<u64>,
    pub events: Vec<Event>,
    pub choices: Choices,
    /// Whether states that crashes of this run leave are asked for.
    pub crashes: bool,
    /// Whether a crash costs work, in a run that tells its story too.
    pub weighs: bool,
    /// Whether processes die alone too.
    pub kills: bool,
    /// Whether states that were seen before are left out.
    pub merges: bool,
    /// Those found that nobody has seen before.
    pub crashed: Vec<State>,
    pub seen: Rc<RefCell<Seen>>,
    pub before: Vec<Ended>,
    /// So many of the events are of runs before.
    pub pending: usize,
    /// Filled only for a story.
    pub reads: Option<Vec<Read>>,
    pub uncertain: Uncertain,
    // Operations so far.
    pub steps: u64,
    /// For bytes that a checksum is taken over.
    pub buffer: Vec<u8>,
    // Whether anything happened since the last point at which a crash was considered.
    fresh: bool,
}

/// States by their hash.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub keys: FxHashSet<u64>,
    pub merged: u64,
}

/// What a path read that could have been otherwise.
#[derive(Debug, Default)]
pub(crate) struct Uncertain {
    /// Where a word was read, and what was found.
    pub loads: Vec<(At, usize, Bytes)>,
    /// Words that were open when a checksum was found to fit them, and the checksum.
    pub verified: Vec<(Vec<usize>, u64)>,
}

/// A run that does so much goes round in circles.
const ENDLESS: u64 = 10_000_000;

impl Run {
    /// In place of one that is in use.
    pub(crate) fn nothing() -> Self {
        Self::new(Profile::Eadr, 0, false, Rc::default())
    }

    pub(crate) fn new(profile: Profile, len: usize, strong_flushes: bool, seen: Rc<RefCell<Seen>>) -> Self {
        Self {
            profile,
            len,
            strong_flushes,
            edit: None,
            layers: Vec::new(),
            content: Content::zeros(len),
            nots: Vec::new(),
            marks: Vec::new(),
            events: Vec::new(),
            choices: Choices::default(),
            crashes: false,
            weighs: false,
            kills: false,
            merges: true,
            crashed: Vec::new(),
            seen,
            before: Vec::new(),
            pending: 0,
            reads: None,
            uncertain: Uncertain::default(),
            steps: 0,
            buffer: Vec::new(),
            fresh: false,
        }
    }

    /// Readies it for runs that begin with `state`.
    pub(crate) fn begin(&mut self, state: &State) {
        self.content.begin(&state.left);
        self.before.clone_from(&state.runs);
        self.crashed.clear();
    }

    /// Readies it for another run from the same state.
    pub(crate) fn rewind(&mut self, state: &State) {
        self.content.rewind();
        self.layers.clone_from(&state.layers);
        self.nots.clone_from(&state.nots);
        self.marks.clone_from(&state.marks);
        self.events.clear();
        self.events.extend_from_slice(&state.pending);
        self.pending = self.events.len();
        self.events
            .iter()
            .filter_map(|event| event.kind.write())
            .for_each(|write| self.content.store(&write));
        self.steps = 0;
        self.uncertain.loads.clear();
        self.uncertain.verified.clear();
        self.fresh = false;
    }

    // A structure with a cycle in it must not hang the search.
    #[inline]
    pub(crate) fn work(&mut self, steps: u64) {
        self.steps += steps;
        assert!(self.steps < ENDLESS, "it does not come to an end, or is too long to be crashed everywhere");
    }

    pub(crate) fn record(&mut self, kind: Kind, at: At) {
        self.work(1);
        let write = kind.write();
        if kind.is_boundary() || self.kills {
            self.crash_point(kind.is_boundary());
        }
        self.fresh = true;
        if let Some(write) = write {
            self.content.store(&write);
        }
        self.marks.extend(kind.mark());
        self.events.push(Event { kind, at });
    }

    /// The word, of which the bytes of `wanted` are needed.
    #[inline]
    pub(crate) fn read(&mut self, word: usize, wanted: u8, at: At) -> Bytes {
        self.work(1);
        match self.content.read(word, wanted) {
            Some(bytes) => bytes,
            None => self.read_open(word, wanted, at),
        }
    }

    #[cold]
    fn read_open(&mut self, word: usize, wanted: u8, at: At) -> Bytes {
        let bytes = match self.read_one_layer(word, wanted) {
            Some(Ok(bytes)) => return bytes,
            Some(Err(bytes)) => bytes,
            None => {
                let own = self.content.own(word);
                let mut ways = ways::ways(&self.layers, self.layers.len(), word, wanted, own, None);
                if !self.nots.is_empty() {
                    ways.retain(|(layers, _)| nots::refutable(layers, &self.nots));
                }
                let first = masked(ways[0].1, wanted);
                if ways.iter().all(|(_, bytes)| masked(*bytes, wanted) == first) {
                    return first;
                }
                let chosen = self.choices.choose(ways.len());
                let (layers, bytes) = ways.swap_remove(chosen);
                self.layers = layers;
                nots::tidy(&self.layers, &mut self.nots);
                bytes
            }
        };
        self.uncertain.loads.push((at, word, masked(bytes, wanted)));
        self.learn(word);
        bytes
    }

    // The same without copies, where one layer decides it all: what was read without (`Ok`) or with a choice.
    fn read_one_layer(&mut self, word: usize, wanted: u8) -> Option<Result<Bytes, Bytes>> {
        if !self.nots.is_empty() {
            return None;
        }
        let (own, known) = self.content.own(word);
        let layer = (0..self.layers.len())
            .rev()
            .find(|layer| self.layers[*layer].plain(word) != Some(([0; WORD], 0)))?;
        let outcomes = self.layers[layer].outcomes(word);
        if outcomes.iter().any(|outcome| wanted & !known & !outcome.mask != 0) && layer > 0 {
            return None;
        }
        let seen = |outcome: &Outcome| {
            let mut bytes = own;
            overlay(&mut bytes, outcome.bytes, outcome.mask & !known);
            bytes
        };
        let first = masked(seen(&outcomes[0]), wanted);
        if outcomes.iter().all(|outcome| masked(seen(outcome), wanted) == first) {
            return Some(Ok(first));
        }
        let outcome = &outcomes[self.choices.choose(outcomes.len())];
        let consistent = self.layers[layer].decide(outcome);
        debug_assert!(consistent);
        Some(Err(seen(outcome)))
    }

    fn learn(&mut self, word: usize) {
        if self.content.below(word).is_none()
            && let Some(bytes) = ways::certain(&self.layers, word, 0xff)
        {
            self.content.learn(word, bytes);
        }
    }

    /// Whether the words, of which each has those bytes that count, came out so that the checksum `fits`: as they
    /// all were at one time, since it was made of that.
    pub(crate) fn verify(
        &mut self,
        words: &[(usize, u8)],
        sum: u64,
        mut fits: impl FnMut(&[Bytes]) -> bool,
    ) -> bool {
        let mut values_of: Vec<Bytes> = Vec::with_capacity(words.len());
        let (mut open, mut can_be) = (Vec::new(), Vec::new());
        for (number, (word, mask)) in words.iter().enumerate() {
            let mut known = self.content.read(*word, *mask);
            if known.is_none() {
                let values = ways::values(&self.layers, *word, *mask, self.content.own(*word));
                known = only(&values);
                if known.is_none() {
                    open.push(number);
                    can_be.push(values);
                }
            }
            values_of.push(known.unwrap_or_default());
        }
        if open.is_empty() {
            return fits(&values_of);
        }
        let all = can_be.iter().try_fold(1usize, |all, values| all.checked_mul(values.len()));
        let versions = match all {
            Some(..=FEW) => product(&can_be),
            _ => self.versions(&open.iter().map(|number| words[*number].0).collect::<Vec<_>>()),
        };
        for version in versions {
            for (number, bytes) in open.iter().zip(&version) {
                let (own, mask) = self.content.own(words[*number].0);
                values_of[*number] = *bytes;
                overlay(&mut values_of[*number], own, mask);
            }
            if !fits(&values_of) {
                continue;
            }
            let target: Vec<(usize, Bytes, u8)> = open
                .iter()
                .zip(&version)
                .map(|(number, bytes)| {
                    let (word, wanted) = words[*number];
                    let mask = wanted & !self.content.own(word).1;
                    (word, masked(*bytes, mask), mask)
                })
                .collect();
            let mut solutions = Vec::new();
            nots::solutions(self.layers.clone(), &target, &self.nots, &mut solutions);
            if solutions.is_empty() {
                continue;
            }
            self.nots.push(Not { depth: self.layers.len(), words: target });
            let may_be_otherwise = nots::refutable(&self.layers, &self.nots);
            let chosen = self.choices.choose(solutions.len() + usize::from(may_be_otherwise));
            if chosen == solutions.len() {
                continue;
            }
            self.layers = solutions.swap_remove(chosen);
            let Not { words, .. } = self.nots.pop().expect("just pushed");
            nots::tidy(&self.layers, &mut self.nots);
            let words: Vec<usize> = words.into_iter().map(|(word, ..)| word).collect();
            words.iter().for_each(|word| self.learn(*word));
            self.uncertain.verified.push((words, sum));
            return true;
        }
        false
    }

    // The contents that a checksum may have been made for: all words as they were at one time of some run, the
    // newest first. Where a durable store hides earlier ones, its value was there from the beginning.
    fn versions(&self, words: &[usize]) -> Vec<Vec<Bytes>> {
        let mut start = vec![[0; WORD]; words.len()];
        let mut versions = vec![start.clone()];
        for layer in &self.layers {
            let mut writes: Vec<_> = words
                .iter()
                .enumerate()
                .flat_map(|(number, word)| layer.writes(*word, true).map(move |(time, w)| (time, number, w)))
                .collect();
            writes.sort_unstable_by_key(|(time, ..)| *time);
            let mut now = start.clone();
            for (number, word) in words.iter().enumerate() {
                if let Some(write) = layer.hides(*word) {
                    now[number] = write.bytes;
                }
            }
            versions.push(now.clone());
            for (_, number, write) in &writes {
                let before = now[*number];
                overlay(&mut now[*number], write.bytes, write.mask);
                if now[*number] != before {
                    versions.push(now.clone());
                }
            }
            // The next run found what this one left.
            for (number, word) in words.iter().enumerate() {
                layer
                    .writes(*word, false)
                    .for_each(|(_, write)| overlay(&mut start[number], write.bytes, write.mask));
            }
            versions.push(start.clone());
        }
        versions.reverse();
        versions.dedup();
        versions
    }
}

/// So many contents are all tried for a checksum, whatever was in memory at one time.
const FEW: usize = 16;

// Every combination of the values.
fn product(can_be: &[SmallVec<[Bytes; 4]>]) -> Vec<Vec<Bytes>> {
    let mut all = vec![Vec::with_capacity(can_be.len())];
    for values in can_be {
        all = all
            .into_iter()
            .flat_map(|one: Vec<Bytes>| values.iter().map(move |value| [&one[..], &[*value]].concat()))
            .collect();
    }
    all
}

fn only(values: &[Bytes]) -> Option<Bytes> {
    match values {
        [one] => Some(*one),
        _ => None,
    }
}
