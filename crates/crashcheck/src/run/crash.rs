//! Where a run may end, what it leaves then, and whether that is anything new.

use std::hash::{BuildHasher, Hash, Hasher};
use std::rc::Rc;

use rustc_hash::FxBuildHasher;

use super::{Ended, Run, State};
use crate::content::{Bytes, overlay};
use crate::event::{Event, WORD};
use crate::remains::Remains;
use crate::ways::certain;

impl State {
    /// Says what the run did that ended in this state.
    pub(crate) fn last_run(&mut self, events: &Rc<[Event]>) {
        if let Some(last) = self.runs.last_mut() {
            last.events = Rc::clone(events);
        }
    }
}

impl Run {
    /// A crash here is told apart from earlier ones, unless nothing was done since; of the machine only at what
    /// is ordered with more than a store, of the process anywhere.
    pub(crate) fn crash_point(&mut self, boundary: bool) {
        if self.weighs {
            // All that was done is gone through: an endless loop would take the square of its length.
            self.work(self.events.len() as u64 / 32);
        }
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
        if Remains::of(self.profile, &self.events, self.events.len()).is_settled() {
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
        // The run goes on: `take_crashed` adds the events once for all.
        let last = Ended { events: Rc::default(), len: self.own_events().len(), killed };
        self.before.iter().cloned().chain([last]).collect()
    }

    /// The states found in which this run may end.
    pub(crate) fn take_crashed(&mut self) -> Vec<State> {
        let mut crashed = std::mem::take(&mut self.crashed);
        if !crashed.is_empty() {
            let events: Rc<[Event]> = self.own_events().into();
            crashed.iter_mut().for_each(|state| state.last_run(&events));
        }
        crashed
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
        let layer = Remains::of(self.profile, &self.events, self.pending);
        let mut layers = self.layers.clone();
        let mut left = Vec::with_capacity(64);
        let touched: Vec<usize> = layer.words().collect();
        layers.push(layer);
        for word in self.content.listed() {
            match self.content.below(word) {
                _ if touched.binary_search(&word).is_ok() => {}
                known @ Some(_) => left.push((word as u32, known)),
                None => left.push((word as u32, certain(&layers, word, 0xff))),
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
                _ => certain(&layers, word, 0xff),
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
            layers.iter().enumerate().for_each(|(number, layer)| layer.ties_key(number, into));
        });
        for (word, bytes) in left {
            let one = match bytes {
                Some(bytes) => mix(mix(u64::from_le_bytes(*bytes)).wrapping_add(u64::from(*word))),
                None => hash(&|into| word_key(layers, *word as usize, into)),
            };
            sum = sum.wrapping_add(one);
        }
        for not in &self.nots {
            sum = sum.wrapping_add(hash(&|into| {
                // What is known says nothing more; what is open may be hidden by now, and be tied all the same.
                let layers = &layers[..not.depth];
                for (word, bytes, mask) in &not.words {
                    if certain(layers, *word, *mask).is_none() {
                        (bytes, mask).hash(into);
                        word_key(layers, *word, into);
                    }
                }
            }));
        }
        sum
    }
}

// What can have become of a word in all layers.
fn word_key(layers: &[Remains], word: usize, into: &mut impl Hasher) {
    word.hash(into);
    for (number, layer) in layers.iter().enumerate().rev() {
        number.hash(into);
        if !layer.word_key(word, into) {
            break;
        }
    }
}

fn mix(x: u64) -> u64 {
    // The finalizer of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
