//! The memory that a program under check runs on.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Range;
use std::panic::Location;
use std::rc::Rc;

use ringfence_persist::{Memory, checksum};

use crate::choices::Choices;
use crate::event::{Event, Kind, WORD, Write};
use crate::profile::Profile;
use crate::remains::{Outcome, Remains};

/// Memory that records what is done to it, and that may crash: see [`crate::Check`].
///
/// Besides the operations of [`Memory`] it has the single instructions, for those who check what exactly they
/// promise, and [`Machine::mark`].
#[derive(Debug)]
pub struct Machine(RefCell<Inner>);

// Thrown through the program where it crashes, and where a path turns out to contradict itself.
pub(crate) enum Stop {
    Crash,
    Impossible,
}

// Bytes of a range that must not all come out so: a checksum over them did not fit.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Not(Vec<(usize, [u8; WORD], u8)>);

#[derive(Debug, Clone)]
pub(crate) struct Inner {
    pub(crate) profile: Profile,
    pub(crate) len: usize,
    pub(crate) strong_flushes: bool,
    // What earlier runs left, the first one first, over zeros.
    pub(crate) layers: Vec<Rc<Remains>>,
    pub(crate) nots: Vec<Not>,
    pub(crate) events: Vec<Event>,
    now: HashMap<usize, ([u8; WORD], u8)>,
    pub(crate) marks: Vec<u64>,
    pub(crate) choices: Choices,
    pub(crate) crashes_left: usize,
    // Whether anything happened since the last point at which a crash was considered.
    fresh: bool,
    // Destructors run while a crash unwinds the program: they find a machine that does nothing any more.
    stopped: bool,
}

impl Machine {
    pub(crate) fn new(profile: Profile, len: usize, strong_flushes: bool) -> Self {
        Self(RefCell::new(Inner {
            profile,
            len,
            strong_flushes,
            layers: Vec::new(),
            nots: Vec::new(),
            events: Vec::new(),
            now: HashMap::new(),
            marks: Vec::new(),
            choices: Choices::default(),
            crashes_left: 0,
            fresh: false,
            stopped: false,
        }))
    }

    pub(crate) fn of(inner: Inner) -> Self {
        Self(RefCell::new(inner))
    }

    pub(crate) fn into_inner(self) -> Inner {
        self.0.into_inner()
    }

    /// Notes something that the recovery of every later crash is told of: that something has begun, say.
    #[track_caller]
    pub fn mark(&self, mark: u64) {
        self.note(Kind::Mark(mark), Location::caller());
    }

    /// As [`mark`](Self::mark), and says to the world that what was stored so far is durable: a lint tells
    /// where it is not.
    #[track_caller]
    pub fn acknowledge(&self, mark: u64) {
        self.note(Kind::Acknowledge(mark), Location::caller());
    }

    fn note(&self, kind: Kind, at: &'static Location<'static>) {
        self.record(kind, at);
        let inner = &mut *self.0.borrow_mut();
        if let (Kind::Mark(mark) | Kind::Acknowledge(mark), false) = (kind, inner.stopped) {
            inner.marks.push(mark);
        }
    }

    /// What was marked or acknowledged so far, in order.
    pub fn marks(&self) -> Vec<u64> {
        self.0.borrow().marks.clone()
    }

    /// `clwb` or `clflushopt` of the line that holds the byte.
    #[track_caller]
    pub fn clwb(&self, at: usize) {
        self.record(Kind::Flushopt(at / 64), Location::caller());
    }

    /// `clflush` of the line that holds the byte.
    #[track_caller]
    pub fn clflush(&self, at: usize) {
        self.record(Kind::Flush(at / 64), Location::caller());
    }

    // Crashes at the end of the program are asked for here too.
    pub(crate) fn crash_point(&self) {
        let inner = &mut *self.0.borrow_mut();
        let possible = !inner.stopped && inner.crashes_left > 0 && std::mem::take(&mut inner.fresh);
        if possible && inner.choices.choose(2) == 1 {
            inner.stop(Stop::Crash);
        }
    }

    #[track_caller]
    fn within(&self, at: usize, len: usize) {
        let all = self.0.borrow().len;
        assert!(at <= all && len <= all - at, "{len} bytes at {at} of {all}");
    }

    fn record(&self, kind: Kind, at: &'static Location<'static>) {
        if kind.is_boundary() {
            self.crash_point();
        }
        let inner = &mut *self.0.borrow_mut();
        if inner.stopped {
            return;
        }
        inner.fresh = true;
        if let Kind::Store(write) | Kind::Stream(write) | Kind::Locked(write) = kind {
            let (bytes, mask) = inner.now.entry(write.word).or_default();
            for byte in (0..WORD).filter(|byte| write.mask >> byte & 1 == 1) {
                bytes[byte] = write.bytes[byte];
            }
            *mask |= write.mask;
        }
        inner.events.push(Event { kind, at });
    }

    fn write(
        &self,
        at: usize,
        bytes: &[u8],
        kind: impl Fn(Write) -> Kind,
        caller: &'static Location<'static>,
    ) {
        let mut done = 0;
        while done < bytes.len() {
            let (word, first) = ((at + done) / WORD, (at + done) % WORD);
            let len = (WORD - first).min(bytes.len() - done);
            let mut write = Write { word, bytes: [0; WORD], mask: 0 };
            write.bytes[first..first + len].copy_from_slice(&bytes[done..done + len]);
            write.mask = mask(first, len);
            self.record(kind(write), caller);
            done += len;
        }
    }
}

impl Inner {
    // The machine stops: what this run did becomes something of which anything may be left.
    pub(crate) fn crash(&mut self) {
        let remains = Remains::of(self.profile, &self.events);
        self.layers.push(Rc::new(remains));
    }

    pub(crate) fn restart(&mut self) {
        self.events.clear();
        self.now.clear();
        self.fresh = false;
        self.stopped = false;
    }

    fn read(&mut self, word: usize, wanted: u8) -> [u8; WORD] {
        let (mut bytes, mut known) = self.now.get(&word).copied().unwrap_or_default();
        for layer in (0..self.layers.len()).rev() {
            if known & wanted == wanted || self.stopped {
                break;
            }
            if self.layers[layer].touches(word) {
                let outcome = self.decide(layer, word, |_| true);
                overlay(&mut bytes, &mut known, &outcome);
            }
        }
        bytes
    }

    // Chooses among the ways in which a word can have come out in a layer, of those that are wanted.
    fn decide(&mut self, layer: usize, word: usize, wanted: impl Fn(&Outcome) -> bool) -> Outcome {
        let mut outcomes = self.layers[layer].outcomes(word);
        outcomes.retain(wanted);
        if outcomes.is_empty() {
            self.impossible();
        }
        let chosen = self.choices.choose(outcomes.len());
        let outcome = outcomes.swap_remove(chosen);
        if !Rc::make_mut(&mut self.layers[layer]).decide(&outcome) {
            self.impossible();
        }
        self.check_nots();
        outcome
    }

    fn impossible(&mut self) -> ! {
        self.stop(Stop::Impossible);
    }

    fn stop(&mut self, stop: Stop) -> ! {
        self.stopped = true;
        std::panic::resume_unwind(Box::new(stop));
    }

    // What the word can be, over all layers: pairs of bytes, and whether it is the run's own.
    fn possible(&self, word: usize, wanted: u8) -> Vec<[u8; WORD]> {
        let (bytes, known) = self.now.get(&word).copied().unwrap_or_default();
        let mut all = vec![(bytes, known)];
        for layer in self.layers.iter().rev() {
            if all.iter().all(|(_, known)| known & wanted == wanted) {
                break;
            }
            if layer.touches(word) {
                let outcomes = layer.outcomes(word);
                all = all
                    .into_iter()
                    .flat_map(|(bytes, known)| {
                        outcomes.iter().map(move |outcome| {
                            let (mut bytes, mut known) = (bytes, known);
                            overlay(&mut bytes, &mut known, outcome);
                            (bytes, known)
                        })
                    })
                    .collect();
            }
        }
        let mut all: Vec<_> = all.into_iter().map(|(bytes, _)| masked(bytes, wanted)).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    // A range whose checksum did not fit cannot turn out to be just that after all.
    fn check_nots(&mut self) {
        for Not(words) in &self.nots {
            if words.iter().all(|(word, bytes, mask)| self.possible(*word, *mask) == [masked(*bytes, *mask)])
            {
                self.impossible();
            }
        }
    }

    // As if everything up to some event of some run had reached memory: the contents that a checksum may have
    // been made for, the newest first.
    fn versions(&self, words: &[(usize, u8)]) -> Vec<Vec<[u8; WORD]>> {
        let mut now = vec![[0; WORD]; words.len()];
        let mut states = vec![now.clone()];
        for (number, write) in self.history(words) {
            let mask = words[number].1 & write.mask;
            let before = now[number];
            for byte in (0..WORD).filter(|byte| mask >> byte & 1 == 1) {
                now[number][byte] = write.bytes[byte];
            }
            if now[number] != before {
                states.push(now.clone());
            }
        }
        states.reverse();
        states
    }

    // All stores to these words, by the numbers of the words, run by run in order.
    fn history(&self, words: &[(usize, u8)]) -> Vec<(usize, Write)> {
        let mut all = Vec::new();
        for layer in &self.layers {
            let start = all.len();
            for (number, (word, _)) in words.iter().enumerate() {
                all.extend(layer.writes(*word).map(|(time, write)| (time, number, write)));
            }
            all[start..].sort_unstable_by_key(|(time, ..)| *time);
        }
        let mut all: Vec<_> = all.into_iter().map(|(_, number, write)| (number, write)).collect();
        for event in &self.events {
            if let Kind::Store(write) | Kind::Stream(write) | Kind::Locked(write) = event.kind
                && let Ok(number) = words.binary_search_by_key(&write.word, |(word, _)| *word)
            {
                all.push((number, write));
            }
        }
        all
    }

    fn verify(&mut self, pieces: &[Range<usize>; 2], seed: u64, sum: u64) -> bool {
        if self.stopped {
            return false;
        }
        let words = words_of(pieces);
        for version in self.versions(&words) {
            if checksum::of(&bytes_of(pieces, &words, &version), seed) != sum {
                continue;
            }
            let mut sure = true;
            let mut possible = true;
            for ((word, mask), wanted) in words.iter().zip(&version) {
                let all = self.possible(*word, *mask);
                possible &= all.contains(wanted);
                sure &= all == [*wanted];
            }
            if sure {
                return true;
            }
            if !possible {
                continue;
            }
            if self.choices.choose(2) == 0 {
                for ((word, mask), wanted) in words.iter().zip(&version) {
                    self.settle(*word, *mask, wanted);
                }
                return true;
            }
            let not =
                words.iter().zip(&version).map(|((word, mask), bytes)| (*word, *bytes, *mask)).collect();
            self.nots.push(Not(not));
            self.check_nots();
        }
        false
    }

    // Chooses among the ways in which the word is just that.
    fn settle(&mut self, word: usize, wanted: u8, value: &[u8; WORD]) {
        let (mut bytes, mut known) = self.now.get(&word).copied().unwrap_or_default();
        for layer in (0..self.layers.len()).rev() {
            if known & wanted == wanted {
                break;
            }
            if !self.layers[layer].touches(word) {
                continue;
            }
            let open = wanted & !known;
            let fits = |outcome: &Outcome| {
                let seen = outcome.mask & open;
                masked(outcome.bytes, seen) == masked(*value, seen)
            };
            let outcomes = self.layers[layer].outcomes(word);
            if outcomes.iter().all(|outcome| fits(outcome) && outcome.mask & open == open) {
                known |= open;
                continue;
            }
            let outcome = self.decide(layer, word, fits);
            overlay(&mut bytes, &mut known, &outcome);
        }
        let open = wanted & !known;
        if masked(*value, open) != [0; WORD] {
            self.impossible();
        }
    }
}

fn overlay(bytes: &mut [u8; WORD], known: &mut u8, below: &Outcome) {
    for byte in (0..WORD).filter(|byte| below.mask & !*known & 1 << byte != 0) {
        bytes[byte] = below.bytes[byte];
    }
    *known |= below.mask;
}

// Of a word's bytes, `len` from `first` on.
fn mask(first: usize, len: usize) -> u8 {
    (((1u16 << len) - 1) << first) as u8
}

fn masked(mut bytes: [u8; WORD], mask: u8) -> [u8; WORD] {
    (0..WORD).filter(|byte| mask >> byte & 1 == 0).for_each(|byte| bytes[byte] = 0);
    bytes
}

// The words of two ranges, each with its bytes that count, in order of their numbers.
fn words_of(pieces: &[Range<usize>; 2]) -> Vec<(usize, u8)> {
    let mut words = std::collections::BTreeMap::<usize, u8>::new();
    for at in pieces.iter().cloned().flatten() {
        *words.entry(at / WORD).or_default() |= 1 << (at % WORD);
    }
    words.into_iter().collect()
}

fn bytes_of(pieces: &[Range<usize>; 2], words: &[(usize, u8)], values: &[[u8; WORD]]) -> Vec<u8> {
    let byte = |at: usize| {
        let number =
            words.binary_search_by_key(&(at / WORD), |(word, _)| *word).expect("a word of the ranges");
        values[number][at % WORD]
    };
    pieces.iter().cloned().flatten().map(byte).collect()
}

impl Memory for Machine {
    fn len(&self) -> usize {
        self.0.borrow().len
    }

    fn load(&self, at: usize, into: &mut [u8]) {
        self.within(at, into.len());
        let inner = &mut *self.0.borrow_mut();
        let mut done = 0;
        while done < into.len() {
            let (word, first) = ((at + done) / WORD, (at + done) % WORD);
            let len = (WORD - first).min(into.len() - done);
            into[done..done + len].copy_from_slice(&inner.read(word, mask(first, len))[first..first + len]);
            done += len;
        }
    }

    fn load_u64(&self, at: usize) -> u64 {
        assert!(at.is_multiple_of(8), "{at} is no multiple of 8");
        self.within(at, 8);
        u64::from_le_bytes(self.0.borrow_mut().read(at / WORD, 0xff))
    }

    #[track_caller]
    fn store(&self, at: usize, bytes: &[u8]) {
        self.within(at, bytes.len());
        self.write(at, bytes, Kind::Store, Location::caller());
    }

    #[track_caller]
    fn store_u64(&self, at: usize, value: u64) {
        assert!(at.is_multiple_of(8), "{at} is no multiple of 8");
        self.store(at, &value.to_le_bytes());
    }

    #[track_caller]
    fn store_nt(&self, at: usize, bytes: &[u8]) {
        assert!(at.is_multiple_of(8) && bytes.len().is_multiple_of(8), "{} bytes at {at}", bytes.len());
        self.within(at, bytes.len());
        self.write(at, bytes, Kind::Stream, Location::caller());
    }

    #[track_caller]
    fn flush(&self, range: Range<usize>) {
        if range.is_empty() {
            return;
        }
        self.within(range.start, range.len());
        let strong = self.0.borrow().strong_flushes;
        for line in range.start / 64..range.end.div_ceil(64) {
            self.record(if strong { Kind::Flush(line) } else { Kind::Flushopt(line) }, Location::caller());
        }
    }

    #[track_caller]
    fn sfence(&self) {
        self.record(Kind::Sfence, Location::caller());
    }

    #[track_caller]
    fn mfence(&self) {
        self.record(Kind::Mfence, Location::caller());
    }

    #[track_caller]
    fn compare_exchange_u64(&self, at: usize, current: u64, new: u64) -> Result<u64, u64> {
        let found = self.load_u64(at);
        if found != current {
            self.record(Kind::LockedOnly, Location::caller());
            return Err(found);
        }
        let write = Write { word: at / WORD, bytes: new.to_le_bytes(), mask: 0xff };
        self.record(Kind::Locked(write), Location::caller());
        Ok(found)
    }

    fn verify(&self, pieces: [Range<usize>; 2], seed: u64, sum: u64) -> bool {
        pieces.iter().for_each(|piece| self.within(piece.start, piece.len()));
        self.0.borrow_mut().verify(&pieces, seed, sum)
    }
}
