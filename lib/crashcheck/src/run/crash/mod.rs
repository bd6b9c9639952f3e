//! Where a run may end, what it leaves then, and whether that is anything new.
//!
//! What a crash leaves is carried on from one to the next: only words of which something else can
//! have become since are looked at again.

#[cfg(test)]
mod tests;

use std::rc::Rc;

use super::Run;
use super::memory::{Memory, word_key};
use super::state::{Leaving, State};
use crate::crash_image::{CrashImage, mix, then};
use crate::past::Ended;
use crate::values::certain;

/// About what it takes to keep a crash, in bytes: what it does not share with the ones before and
/// behind it. So much for up to 512 KiB of memory, and again for each 16 times of it.
const KEPT: usize = 4096;
const KEPT_UP_TO: u32 = 19;

impl Run {
    /// A crash here is told apart from earlier ones, unless nothing was done since; of the machine
    /// only at what is ordered with more than a store, of the process anywhere.
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
            self.watched.busy(true);
            let Some(replaces) = self.choices.sample_crash() else { continue };
            if let Some(state) = if killed { self.kill() } else { self.crash() } {
                if replaces {
                    self.crashed.clear();
                } else {
                    self.held += self.kept(killed);
                }
                self.crashed.push(state);
            }
        }
        self.watched.busy(false);
    }

    // Twice as much where the process alone died, since caches are kept too; and what checksums did
    // not fit.
    fn kept(&self, killed: bool) -> usize {
        let levels =
            1 + (usize::BITS - self.len.leading_zeros()).saturating_sub(KEPT_UP_TO).div_ceil(4);
        let mismatches: usize =
            self.mismatches.iter().map(|mismatch| size_of_val(&mismatch.words[..])).sum();
        KEPT * levels as usize * (1 + usize::from(killed)) + mismatches
    }

    // What it leaves, up to now.
    fn leaving(&mut self) -> Leaving {
        let new = || Leaving::new(&self.start, self.profile, self.kills);
        let mut leaving = self.leaving.take().unwrap_or_else(new);
        leaving.resume(&self.events, &self.layers, self.kills);
        leaving
    }

    /// The state in which the process is killed now, if it was not seen before.
    pub(crate) fn kill(&mut self) -> Option<State> {
        let mut leaving = self.leaving();
        let state = self.killed(&mut leaving);
        self.leaving = Some(leaving);
        state
    }

    fn killed(&self, leaving: &mut Leaving) -> Option<State> {
        if leaving.walk.is_settled_if_killed() {
            // Nothing is in caches: the same as a crash of the machine.
            return None;
        }
        leaving.below.update(&self.layers, false, &mut leaving.changed);
        let key = self.key(&self.layers, &leaving.below, leaving.marks);
        // In the order of time, since it decides what fences complete.
        if !self.is_new(mix(key.wrapping_add(mix(leaving.walk.history())))) {
            return None;
        }
        self.look_at(leaving);
        let mut walk = leaving.walk.clone();
        walk.kill();
        Some(State {
            layers: self.layers.clone(),
            memory: leaving.below.clone(),
            mismatches: self.mismatches.clone(),
            marks: leaving.marks,
            runs: self.ended(leaving.marked, true),
            killed: Some((walk, leaving.all.clone())),
        })
    }

    fn ended(&self, marked: usize, killed: bool) -> Vec<Ended> {
        // The run goes on: `take_crashed` adds the events and marks once for all.
        let (events, marks) = Default::default();
        let last = Ended { events, len: self.events.len(), marks, marked, killed };
        self.before.iter().cloned().chain([last]).collect()
    }

    /// The states found in which this run may end.
    pub(crate) fn take_crashed(&mut self) -> Vec<Rc<State>> {
        let mut crashed = std::mem::take(&mut self.crashed);
        if !crashed.is_empty() {
            let (events, marks) = (self.events.as_slice().into(), self.marks.as_slice().into());
            crashed.iter_mut().for_each(|state| state.last_run(&events, &marks));
        }
        crashed.into_iter().map(Rc::new).collect()
    }

    fn is_new(&self, key: u64) -> bool {
        let mut seen = self.seen.borrow_mut();
        let new = !self.merges || seen.keys.insert(key);
        if !new {
            seen.merged += 1;
        }
        new
    }

    /// The state that a crash now leaves, if it was not seen before.
    pub(crate) fn crash(&mut self) -> Option<State> {
        let mut leaving = self.leaving();
        let layers = self.look_at(&mut leaving);
        let new = self.is_new(self.key(&layers, &leaving.all, leaving.marks));
        let state = new.then(|| State {
            layers,
            memory: leaving.all.clone(),
            mismatches: self.mismatches.clone(),
            marks: leaving.marks,
            runs: self.ended(leaving.marked, false),
            killed: None,
        });
        self.leaving = Some(leaving);
        state
    }

    // Brings it up to what can be in memory now.
    fn look_at(&self, leaving: &mut Leaving) -> Vec<CrashImage> {
        let mut layers = Vec::with_capacity(self.layers.len() + 1);
        layers.extend_from_slice(&self.layers);
        layers.push(leaving.walk.image());
        leaving.all.update(&layers, true, leaving.walk.changed());
        layers
    }

    fn key(&self, layers: &[CrashImage], memory: &Memory, marks: u64) -> u64 {
        let mut key = then(marks, self.before.len() as u64);
        for (number, layer) in layers.iter().enumerate() {
            layer.ties_key(&mut |next| key = then(then(key, number as u64), next));
        }
        key = key.wrapping_add(memory.key);
        for mismatch in &self.mismatches {
            // What is known says nothing more; what is open may be hidden by now, and be tied all
            // the same.
            let layers = &layers[..mismatch.depth];
            let mut one = 0;
            for (word, bytes, mask) in &mismatch.words {
                if certain(layers, *word, *mask).is_none() {
                    one = then(then(one, u64::from_le_bytes(*bytes)), u64::from(*mask));
                    one = then(one, word_key(layers, false, *word));
                }
            }
            key = key.wrapping_add(mix(one));
        }
        key
    }
}
