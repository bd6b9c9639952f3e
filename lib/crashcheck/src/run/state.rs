//! What crashes leave, and what a run is on the way to leaving.

use std::rc::Rc;

use super::memory::Memory;
use crate::crash_image::{CrashImage, Walk, then};
use crate::event::Event;
use crate::mismatches::Mismatch;
use crate::past::Ended;
use crate::profile::Profile;

/// What a crash leaves: something of which much may be open.
#[derive(Debug)]
pub(crate) struct State {
    /// What each run left, the first one first, over zeros.
    pub layers: Vec<CrashImage>,
    pub memory: Memory,
    pub mismatches: Vec<Mismatch>,
    /// A number for all marks so far.
    pub marks: u64,
    /// What was done, run by run.
    pub runs: Vec<Ended>,
    /// What was done since the last time that the machine stopped: runs that were killed, whose
    /// stores are all there, but of which much may be in caches. And memory with that.
    pub killed: Option<(Walk, Memory)>,
}

impl State {
    /// From where the program begins.
    pub(crate) fn nothing() -> Self {
        Self {
            layers: Vec::new(),
            memory: Memory::default(),
            mismatches: Vec::new(),
            marks: 0,
            runs: Vec::new(),
            killed: None,
        }
    }

    /// Says what the run did that ended in this state.
    pub(crate) fn last_run(&mut self, events: &Rc<[Event]>, marks: &Rc<[u64]>) {
        if let Some(last) = self.runs.last_mut() {
            (last.events, last.marks) = (Rc::clone(events), Rc::clone(marks));
        }
    }
}

/// What a run leaves at its next crash, as far as it is worked out.
#[derive(Debug)]
pub(crate) struct Leaving {
    pub walk: Walk,
    // What earlier runs left, with what is decided of it by now.
    pub(super) below: Memory,
    // The same under what this run did.
    pub(super) all: Memory,
    // What is decided there.
    pub(super) layers: Vec<CrashImage>,
    // Words below of which something else can have become since; only where processes die.
    pub(super) changed: Vec<usize>,
    // Of all marks so far.
    pub(super) marks: u64,
    /// So many of the run's events and marks are in that.
    pub events: usize,
    pub(super) marked: usize,
}

impl Leaving {
    pub(super) fn new(state: &State, profile: Profile, kills: bool) -> Self {
        let below = state.memory.clone();
        let (walk, all) = match &state.killed {
            Some((walk, all)) => (walk.clone(), all.clone()),
            None => (Walk::new(profile, kills), below.clone()),
        };
        let layers = state.layers.clone();
        Self {
            walk,
            below,
            all,
            layers,
            changed: Vec::new(),
            marks: state.marks,
            events: 0,
            marked: 0,
        }
    }

    pub(super) fn resume(&mut self, events: &[Event], layers: &[CrashImage], kills: bool) {
        for event in &events[self.events..] {
            self.walk.step(event);
            if let Some(mark) = event.kind.mark() {
                self.marks = then(self.marks, mark);
                self.marked += 1;
            }
        }
        self.events = events.len();
        let Self { walk, layers: before, changed, .. } = self;
        for (before, now) in
            before.iter_mut().zip(layers).filter(|(before, now)| !before.is_decided_as(now))
        {
            before.changed(now, &mut |word| {
                walk.changed().push(word);
                if kills {
                    changed.push(word);
                }
            });
            before.clone_from(now);
        }
    }
}
