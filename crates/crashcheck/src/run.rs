//! One run on memory that crashes may have left in any of many states: what it did, and what has been decided
//! of what it found.

use std::cell::RefCell;
use std::hash::{BuildHasher, Hash, Hasher};
use std::rc::Rc;

use rustc_hash::{FxBuildHasher, FxHashSet};

use crate::choices::Choices;
use crate::content::{Bytes, Content, masked, overlay};
use crate::event::{At, Event, Kind, WORD};
use crate::fix::Edit;
use crate::nots::{self, Not, values};
use crate::profile::Profile;
use crate::remains::Remains;

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
    pub events: Rc<[Event]>,
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
    /// Words that a checksum was found to fit.
    pub verified: Vec<usize>,
}

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
            kills: false,
            merges: true,
            crashed: Vec::new(),
            seen,
            before: Vec::new(),
            pending: 0,
            reads: None,
            uncertain: Uncertain::default(),
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
        self.uncertain.loads.clear();
        self.uncertain.verified.clear();
        self.fresh = false;
    }

    pub(crate) fn record(&mut self, kind: Kind, at: At) {
        let write = kind.write();
        if kind.is_boundary() || (self.kills && write.is_some()) {
            self.crash_point(kind.is_boundary());
        }
        self.fresh = true;
        if let Some(write) = write {
            self.content.store(&write);
        }
        self.marks.extend(kind.mark());
        self.events.push(Event { kind, at });
    }

    /// A crash here is told apart from earlier ones, unless nothing was done since; of the machine only at what
    /// is ordered with more than a store, of the process anywhere.
    pub(crate) fn crash_point(&mut self, boundary: bool) {
        // On a path that repeats an earlier one its crashes were considered there.
        if !self.crashes || !self.fresh || !self.choices.is_new() {
            return;
        }
        if boundary {
            self.fresh = false;
        }
        for killed in [false, true] {
            if if killed { !self.kills } else { !boundary } {
                continue;
            }
            let Some(replaces) = self.choices.sample_crash() else { continue };
            if let Some(state) = if killed { self.kill() } else { self.crash() } {
                if replaces {
                    self.crashed.clear();
                }
                self.crashed.push(state);
            }
        }
    }

    /// The state in which the process is killed now, if nobody has seen it before.
    pub(crate) fn kill(&self) -> Option<State> {
        if Remains::of(self.profile, &self.events).is_settled() {
            // Nothing is in caches: the same as a crash of the machine.
            return None;
        }
        let left: Vec<_> = self.content.below_listed().map(|(word, known)| (word as u32, known)).collect();
        let mut key = self.key(&self.layers, &left);
        let mut hasher = FxBuildHasher.build_hasher();
        // In the order of time, since it decides what fences complete.
        self.events
            .iter()
            .filter(|event| event.kind.mark().is_none())
            .for_each(|event| event.kind.hash(&mut hasher));
        key = mix(key.wrapping_add(mix(hasher.finish())));
        if !self.is_new(key) {
            return None;
        }
        Some(State {
            layers: self.layers.clone(),
            left,
            nots: self.nots.clone(),
            marks: self.marks.clone(),
            runs: self.ended(true),
            pending: self.events.as_slice().into(),
        })
    }

    fn ended(&self, killed: bool) -> Vec<Ended> {
        let last = Ended { events: self.own_events().into(), killed };
        self.before.iter().cloned().chain([last]).collect()
    }

    /// What this run did itself.
    pub(crate) fn own_events(&self) -> &[Event] {
        &self.events[self.pending..]
    }

    fn is_new(&self, key: u64) -> bool {
        let mut seen = self.seen.borrow_mut();
        let new = !self.merges || seen.keys.insert(key);
        if !new {
            seen.merged += 1;
        }
        new
    }

    /// The state that a crash now leaves, if nobody has seen it before.
    pub(crate) fn crash(&self) -> Option<State> {
        let layer = Remains::of(self.profile, &self.events);
        let mut layers = self.layers.clone();
        let mut left = Vec::new();
        let touched: Vec<usize> = layer.words().collect();
        layers.push(layer);
        for word in self.content.listed() {
            match self.content.below(word) {
                _ if touched.binary_search(&word).is_ok() => {}
                known @ Some(_) => left.push((word as u32, known)),
                None => left.push((word as u32, only(&values(&layers, word, 0xff, Default::default())))),
            }
        }
        for word in touched {
            let below = self.content.below(word);
            let bytes = match (layers[layers.len() - 1].plain(word), below) {
                (Some((bytes, 0xff)), _) => Some(bytes),
                (Some((bytes, mask)), Some(mut below)) => {
                    overlay(&mut below, bytes, mask);
                    Some(below)
                }
                _ => only(&values(&layers, word, 0xff, Default::default())),
            };
            left.push((word as u32, bytes));
        }
        left.retain(|(_, bytes)| *bytes != Some([0; WORD]));
        if !self.is_new(self.key(&layers, &left)) {
            return None;
        }
        let (nots, marks) = (self.nots.clone(), self.marks.clone());
        Some(State { layers, left, nots, marks, runs: self.ended(false), pending: Rc::default() })
    }

    // Sums, since words come in any order.
    fn key(&self, layers: &[Remains], left: &[(u32, Option<Bytes>)]) -> u64 {
        let hash = |feed: &dyn Fn(&mut rustc_hash::FxHasher)| {
            let mut hasher = FxBuildHasher.build_hasher();
            feed(&mut hasher);
            mix(hasher.finish())
        };
        let mut sum = hash(&|into| {
            (&self.marks, self.before.len()).hash(into);
            layers.iter().for_each(|layer| layer.ties_key(into));
        });
        for (word, bytes) in left {
            let one = match bytes {
                Some(bytes) => mix(mix(u64::from_le_bytes(*bytes)).wrapping_add(u64::from(*word))),
                None => hash(&|into| {
                    word.hash(into);
                    for (number, layer) in layers.iter().enumerate().rev() {
                        number.hash(into);
                        if !layer.word_key(*word as usize, into) {
                            break;
                        }
                    }
                }),
            };
            sum = sum.wrapping_add(one);
        }
        for not in &self.nots {
            sum = sum.wrapping_add(hash(&|into| not.hash(into)));
        }
        sum
    }

    /// The word, of which the bytes of `wanted` are needed.
    #[inline]
    pub(crate) fn read(&mut self, word: usize, wanted: u8, at: At) -> Bytes {
        match self.content.read(word, wanted) {
            Some(bytes) => bytes,
            None => self.read_open(word, wanted, at),
        }
    }

    #[cold]
    fn read_open(&mut self, word: usize, wanted: u8, at: At) -> Bytes {
        let mut ways = nots::ways(&self.layers, self.layers.len(), word, wanted, self.content.own(word));
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
        self.uncertain.loads.push((at, word, masked(bytes, wanted)));
        self.learn(word);
        bytes
    }

    fn learn(&mut self, word: usize) {
        if self.content.below(word).is_none()
            && let Some(bytes) = only(&values(&self.layers, word, 0xff, Default::default()))
        {
            self.content.learn(word, bytes);
        }
    }

    /// Whether the bytes of the words, of which each has those that count, are what `fits` accepts: every word
    /// in turn, the value of all as they were at one time.
    pub(crate) fn verify(&mut self, words: &[(usize, u8)], mut fits: impl FnMut(&[Bytes]) -> bool) -> bool {
        let mut values_of: Vec<Bytes> = Vec::with_capacity(words.len());
        let mut open = Vec::new();
        for (number, (word, mask)) in words.iter().enumerate() {
            let known = self
                .content
                .read(*word, *mask)
                .or_else(|| only(&values(&self.layers, *word, *mask, self.content.own(*word))));
            if known.is_none() {
                open.push(number);
            }
            values_of.push(known.unwrap_or_default());
        }
        if open.is_empty() {
            return fits(&values_of);
        }
        for version in self.versions(&open.iter().map(|number| words[*number].0).collect::<Vec<_>>()) {
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
            nots::solutions(&self.layers, &target, &self.nots, &mut solutions);
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
            for (word, ..) in words {
                self.learn(word);
                self.uncertain.verified.push(word);
            }
            return true;
        }
        false
    }

    // The contents that a checksum may have been made for: all words as they were at one time of some run, the
    // newest first.
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
        let mut seen = FxHashSet::default();
        versions.retain(|version| seen.insert(version.clone()));
        versions
    }
}

fn mix(x: u64) -> u64 {
    // The finalizer of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

fn only(values: &[Bytes]) -> Option<Bytes> {
    match values {
        [one] => Some(*one),
        _ => None,
    }
}
