//! One run on memory that crashes may have left in any of many states: what it did, and what has
//! been decided of what it found.

mod crash;
mod memory;
mod state;
mod verify;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

use rustc_hash::FxHashSet;

use crate::bytes::{Bytes, masked, overlay};
use crate::choices::Choices;
use crate::content::Content;
use crate::crash_image::{CrashImage, Outcome};
use crate::event::{At, Event, Kind, Source, WORD};
use crate::fate::Fate;
use crate::fix::{Edit, Op};
use crate::log::{Log, Step};
use crate::mismatches::{self, Mismatch};
use crate::non_temporal::Streaming;
use crate::past::{Ended, Read};
use crate::profile::Profile;
use crate::stack;
use crate::stop::{Limits, Stop, Stopped};
use crate::values;
use crate::watch::Watched;
use state::Leaving;

pub(crate) use state::State;

#[derive(Debug)]
pub(crate) struct Run {
    pub profile: Profile,
    pub len: usize,
    pub strong_flushes: bool,
    /// What is changed, as long as fixes are tried.
    pub edits: Vec<Edit>,
    /// Where all that is stored is made durable at once: what was done, and where.
    pub at_once: Option<Places>,
    pub layers: Vec<CrashImage>,
    pub content: Content,
    pub mismatches: Vec<Mismatch>,
    /// Of this run alone, as events are.
    pub marks: Vec<u64>,
    pub events: Vec<Event>,
    pub choices: Choices,
    /// Whether states that crashes of this run leave are asked for.
    pub crashes: bool,
    /// Whether processes die alone too.
    pub kills: bool,
    /// Whether states that were seen before are left out.
    pub merges: bool,
    /// Those found that were not seen before.
    pub crashed: Vec<State>,
    pub seen: Rc<RefCell<Seen>>,
    pub before: Vec<Ended>,
    /// From where it began.
    pub start: Rc<State>,
    /// Once a crash was looked at.
    pub leaving: Option<Leaving>,
    /// Filled only for a story.
    pub reads: Option<Vec<Read>>,
    pub uncertain: Uncertain,
    /// What it did so far, and what it has to do.
    pub log: Log,
    /// Why it was stopped.
    pub stopped: Option<Stop>,
    /// Stored non-temporally, and no fence came since.
    pub streaming: Streaming,
    /// They may be accessed all the same.
    pub unfenced: bool,
    /// Work so far: about as many words were read or written, of which those that were open weigh
    /// more.
    pub steps: u64,
    pub limits: Limits,
    /// Operations so far, of which one on many lines is many; and bytes held for them and for
    /// crashes.
    operations: u64,
    pub held: usize,
    /// The same of the runs that it comes after, which wait meanwhile.
    pub held_before: usize,
    /// Where the stack has an end.
    pub floor: usize,
    pub watched: Arc<Watched>,
    /// For bytes that a checksum is taken over.
    pub buffer: Vec<u8>,
    // Whether anything happened since the last point at which a crash was considered.
    fresh: bool,
}

/// Operations that could be missing a flush or a fence, each once.
pub(crate) type Places = Rc<RefCell<BTreeSet<(Op, At)>>>;

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
    pub loads: Vec<(Source, usize, Bytes)>,
    /// Words that were open when a checksum was found to fit them, and a number for all that it
    /// fitted.
    pub verified: Vec<(Vec<usize>, u64)>,
}

/// What it costs to find out what an open word can be, in words that are known.
const OPEN: u64 = 16;

impl Run {
    /// In place of one that is in use.
    pub(crate) fn nothing() -> Self {
        Self::new(Profile::Eadr, 0, false, Rc::default())
    }

    pub(crate) fn new(
        profile: Profile,
        len: usize,
        strong_flushes: bool,
        seen: Rc<RefCell<Seen>>,
    ) -> Self {
        Self {
            profile,
            len,
            strong_flushes,
            edits: Vec::new(),
            at_once: None,
            layers: Vec::new(),
            content: Content::new(),
            mismatches: Vec::new(),
            marks: Vec::new(),
            events: Vec::new(),
            choices: Choices::default(),
            crashes: false,
            kills: false,
            merges: true,
            crashed: Vec::new(),
            seen,
            before: Vec::new(),
            start: Rc::new(State::nothing()),
            leaving: None,
            reads: None,
            uncertain: Uncertain::default(),
            log: Log::default(),
            stopped: None,
            streaming: Streaming::default(),
            unfenced: false,
            steps: 0,
            limits: Limits::default(),
            operations: 0,
            held: 0,
            held_before: 0,
            floor: 0,
            watched: Arc::default(),
            buffer: Vec::new(),
            fresh: false,
        }
    }

    /// Readies it for runs that begin with `state`.
    pub(crate) fn begin(&mut self, state: &Rc<State>) {
        let stored = state.killed.as_ref().map(|(walk, _)| walk.stores().clone());
        self.content.begin(state.memory.words.clone(), stored);
        self.start = Rc::clone(state);
        self.before.clone_from(&state.runs);
        self.crashed.clear();
    }

    /// Readies it for a run on memory that is zero.
    pub(crate) fn blank(&mut self) {
        self.content.rewind();
        self.marks.clear();
        self.events.clear();
        self.leaving = None;
        self.streaming.clear();
        self.unused();
    }

    fn unused(&mut self) {
        (self.steps, self.operations, self.held, self.stopped) = (0, 0, self.held_before, None);
    }

    /// Readies it for another run from the same state.
    pub(crate) fn rewind(&mut self) {
        self.content.rewind();
        self.layers.clone_from(&self.start.layers);
        self.mismatches.clone_from(&self.start.mismatches);
        self.marks.clear();
        self.events.clear();
        self.leaving = None;
        self.unused();
        self.uncertain.loads.clear();
        self.uncertain.verified.clear();
        self.streaming.clear();
        self.fresh = false;
    }

    /// What became of the stores of all runs up to the last stop of the machine.
    pub(crate) fn fates(&self) -> Vec<Fate> {
        let mut runs = &self.before[..];
        let mut fates = Vec::new();
        for layer in &self.layers {
            let of_layer =
                runs.iter().position(|run| !run.killed).expect("a layer is of runs that ended") + 1;
            let (of_layer, later) = runs.split_at(of_layer);
            fates.extend(layer.fates(of_layer.iter().rev().map(Ended::events)));
            runs = later;
        }
        fates
    }

    /// Begins an operation on so many lines, unless it is another than the one that the run has to
    /// do. A structure with a cycle in it must not hang the search, nor fill memory.
    #[inline]
    pub(crate) fn step(&mut self, step: Step, lines: usize) {
        let same = self.log.note(step);
        self.operations += lines as u64;
        self.held += size_of::<Step>();
        if !same
            | self.watched.operation(step.at)
            | (self.operations > self.limits.operations)
            | (self.held > self.limits.memory)
            | (stack::here() < self.floor)
        {
            self.over(same);
        }
        self.steps += 1;
    }

    #[cold]
    fn over(&mut self, same: bool) {
        let why = if !same {
            Stop::Differs
        } else if self.operations > self.limits.operations {
            Stop::Operations
        } else if self.held > self.limits.memory {
            Stop::Memory
        } else if stack::here() < self.floor {
            Stop::Stack
        } else if self.watched.is_late() {
            Stop::Time
        } else {
            // It was a run before that was late.
            return;
        };
        self.stop(why);
    }

    // Code that catches this is stopped at the next operation again. A drop on the way out is left
    // alone, since two panics at once end the process.
    #[cold]
    pub(crate) fn stop(&mut self, why: Stop) {
        self.stopped.get_or_insert(why);
        self.operations = u64::MAX / 2;
        if !std::thread::panicking() {
            std::panic::resume_unwind(Box::new(Stopped));
        }
    }

    pub(crate) fn record(&mut self, kind: Kind, at: Source) {
        self.step(Step::event(kind, at), 1);
        self.held += size_of::<Event>();
        let write = kind.write();
        if kind.is_boundary() || self.kills {
            self.crash_point(kind.is_boundary());
        }
        self.streaming.done(kind);
        self.fresh = true;
        if let Some(write) = write {
            self.held += self.content.store(&write);
        }
        self.marks.extend(kind.mark());
        self.events.push(Event { kind, at: At::Source(at) });
    }

    /// All marks so far, in order.
    pub(crate) fn all_marks(&self) -> Vec<u64> {
        let before: usize = self.before.iter().map(|run| run.marked).sum();
        let mut all = Vec::with_capacity(before + self.marks.len());
        self.before.iter().for_each(|run| all.extend_from_slice(run.marks()));
        all.extend_from_slice(&self.marks);
        all
    }

    /// The word, of which the bytes of `wanted` are needed.
    #[inline]
    pub(crate) fn read(&mut self, word: usize, wanted: u8, at: Source) -> Bytes {
        self.steps += 1;
        match self.content.read(word, wanted) {
            Some(bytes) => bytes,
            None => self.read_open(word, wanted, at),
        }
    }

    #[cold]
    fn read_open(&mut self, word: usize, wanted: u8, at: Source) -> Bytes {
        self.steps += OPEN;
        self.watched.busy(true);
        let bytes = self.decide_open(word, wanted, at);
        self.watched.busy(false);
        bytes
    }

    fn decide_open(&mut self, word: usize, wanted: u8, at: Source) -> Bytes {
        let bytes = match self.read_one_layer(word, wanted) {
            Some(Ok(bytes)) => return bytes,
            Some(Err(bytes)) => bytes,
            None => {
                let own = self.content.own(word);
                let mut ways =
                    values::ways(&self.layers, self.layers.len(), word, wanted, own, None);
                if !self.mismatches.is_empty() {
                    ways.retain(|(layers, _)| mismatches::refutable(layers, &self.mismatches));
                }
                let first = masked(ways[0].1, wanted);
                if ways.iter().all(|(_, bytes)| masked(*bytes, wanted) == first) {
                    return first;
                }
                let chosen = self.choices.choose(ways.len(), self.log.done());
                let (layers, bytes) = ways.swap_remove(chosen);
                self.layers = layers;
                mismatches::tidy(&self.layers, &mut self.mismatches);
                bytes
            }
        };
        self.uncertain.loads.push((at, word, masked(bytes, wanted)));
        self.learn(word);
        bytes
    }

    // The same without copies, where one layer decides it all: what was read without (`Ok`) or with
    // a choice.
    fn read_one_layer(&mut self, word: usize, wanted: u8) -> Option<Result<Bytes, Bytes>> {
        if !self.mismatches.is_empty() {
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
        let outcome = &outcomes[self.choices.choose(outcomes.len(), self.log.done())];
        let consistent = self.layers[layer].decide(outcome);
        debug_assert!(consistent);
        Some(Err(seen(outcome)))
    }

    fn learn(&mut self, word: usize) {
        if !self.content.is_known(word)
            && let Some(bytes) = values::certain(&self.layers, word, 0xff)
        {
            self.content.learn(word, bytes);
        }
    }
}
