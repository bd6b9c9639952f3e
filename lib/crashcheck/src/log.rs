//! What a run did, operation by operation, so that it shows when another run on the same memory did
//! not do the same.

use std::hash::{BuildHasher, Hasher};

use rustc_hash::FxBuildHasher;

use crate::event::{At, Event, Kind, Source, WORD, Write};
use crate::past::{Read, What};

/// One operation, and where in the source it was asked for. Three words, since a run may do
/// millions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Step {
    pub at: Source,
    // The verb, a mask or a length, and a word, a line or a place in memory.
    what: u64,
    // What is stored or marked; what a load found, which is not part of what was asked for.
    arg: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verb {
    // Of up to 8 bytes, with what was found.
    Load,
    LoadMany,
    Verify,
    Store,
    Stream,
    Locked,
    LockedOnly,
    Flushopt,
    Flush,
    Sfence,
    Mfence,
    Mark,
    Acknowledge,
}

const VERBS: [Verb; 13] = [
    Verb::Load,
    Verb::LoadMany,
    Verb::Verify,
    Verb::Store,
    Verb::Stream,
    Verb::Locked,
    Verb::LockedOnly,
    Verb::Flushopt,
    Verb::Flush,
    Verb::Sfence,
    Verb::Mfence,
    Verb::Mark,
    Verb::Acknowledge,
];

impl Verb {
    fn name(self) -> &'static str {
        match self {
            Verb::Load | Verb::LoadMany => "load",
            Verb::Verify => "verify",
            Verb::Store => "store",
            Verb::Stream => "nt store",
            Verb::Locked => "cmpxchg",
            Verb::LockedOnly => "cmpxchg (failed)",
            Verb::Flushopt => "clwb",
            Verb::Flush => "clflush",
            Verb::Sfence => "sfence",
            Verb::Mfence => "mfence",
            Verb::Mark => "mark",
            Verb::Acknowledge => "acknowledge",
        }
    }
}

/// Bits of a place.
const PLACE: u32 = 48;

impl Step {
    #[inline]
    fn new(at: Source, verb: Verb, mask: u8, place: usize, arg: u64) -> Self {
        let place = place as u64 & ((1 << PLACE) - 1);
        Self { at, what: (verb as u64) << 56 | u64::from(mask) << PLACE | place, arg }
    }

    #[inline]
    pub(crate) fn event(kind: Kind, at: Source) -> Self {
        let write = |verb, Write { word, bytes, mask }: Write| {
            Self::new(at, verb, mask, word, u64::from_le_bytes(bytes))
        };
        match kind {
            Kind::Store(bytes) => write(Verb::Store, bytes),
            Kind::Stream(bytes) => write(Verb::Stream, bytes),
            Kind::Locked(bytes) => write(Verb::Locked, bytes),
            Kind::LockedOnly => Self::new(at, Verb::LockedOnly, 0, 0, 0),
            Kind::Flushopt(line) => Self::new(at, Verb::Flushopt, 0, line, 0),
            Kind::Flush(line) => Self::new(at, Verb::Flush, 0, line, 0),
            Kind::Sfence => Self::new(at, Verb::Sfence, 0, 0, 0),
            Kind::Mfence => Self::new(at, Verb::Mfence, 0, 0, 0),
            Kind::Mark(mark) => Self::new(at, Verb::Mark, 0, 0, mark),
            Kind::Acknowledge(mark) => Self::new(at, Verb::Acknowledge, 0, 0, mark),
        }
    }

    #[inline]
    pub(crate) fn load(from: usize, len: usize, at: Source) -> Self {
        match len {
            0..=WORD => Self::new(at, Verb::Load, len as u8, from, 0),
            _ => Self::new(at, Verb::LoadMany, 0, from, len as u64),
        }
    }

    /// A question for a checksum: of bytes from `from` on, and with all the rest of it as one
    /// number.
    pub(crate) fn verify(from: usize, rest: u64, at: Source) -> Self {
        Self::new(at, Verb::Verify, 0, from, rest)
    }

    fn verb(&self) -> Verb {
        VERBS[(self.what >> 56) as usize]
    }

    #[inline]
    fn is_same(&self, other: &Self) -> bool {
        // One place in a program is one pointer, and what a load found follows from what was there.
        std::ptr::eq(self.at, other.at)
            && self.what == other.what
            && (self.arg == other.arg || self.verb() == Verb::Load)
    }

    // What a story tells of it.
    fn told(&self) -> Result<Kind, What> {
        let place = (self.what & ((1 << PLACE) - 1)) as usize;
        let mask = (self.what >> PLACE) as u8;
        let write = Write { word: place, bytes: self.arg.to_le_bytes(), mask };
        Ok(match self.verb() {
            Verb::Load => {
                return Err(What::Load(place, self.arg.to_le_bytes()[..mask.into()].to_vec()));
            }
            Verb::LoadMany => return Err(What::Loads("load", place..place + self.arg as usize)),
            Verb::Verify => return Err(What::Loads("verify", place..place)),
            Verb::Store => Kind::Store(write),
            Verb::Stream => Kind::Stream(write),
            Verb::Locked => Kind::Locked(write),
            Verb::LockedOnly => Kind::LockedOnly,
            Verb::Flushopt => Kind::Flushopt(place),
            Verb::Flush => Kind::Flush(place),
            Verb::Sfence => Kind::Sfence,
            Verb::Mfence => Kind::Mfence,
            Verb::Mark => Kind::Mark(self.arg),
            Verb::Acknowledge => Kind::Acknowledge(self.arg),
        })
    }
}

/// Steps as a story takes them: instructions, and what was read between these.
pub(crate) fn told(steps: &[Step]) -> (Vec<Event>, Vec<Read>) {
    let (mut events, mut reads) = (Vec::new(), Vec::new());
    for step in steps {
        match step.told() {
            Ok(kind) => events.push(Event { kind, at: At::Source(step.at) }),
            Err(what) => reads.push(Read { at: step.at, events: events.len(), what }),
        }
    }
    (events, reads)
}

/// The steps of the run under way, and behind them those of an earlier run that it has to do too.
#[derive(Debug, Default)]
pub(crate) struct Log {
    steps: Vec<Step>,
    // So many of them the run under way has done.
    done: usize,
    // Whether it has to do no more than them.
    whole: bool,
    // What it did in place of the next of them.
    instead: Option<Step>,
}

impl Log {
    /// For a run that has to do the first `same` steps of the one before, and then anything.
    pub(crate) fn begin(&mut self, same: usize) {
        self.steps.truncate(same);
        (self.done, self.whole, self.instead) = (0, false, None);
    }

    /// For a run that has to do just what the one before did.
    pub(crate) fn again(&mut self) {
        (self.done, self.whole, self.instead) = (0, true, None);
    }

    /// Notes what the run does: whether it is what it had to do.
    #[inline]
    pub(crate) fn note(&mut self, step: Step) -> bool {
        let same = match self.steps.get(self.done) {
            Some(first) => first.is_same(&step),
            None if self.whole => false,
            None => {
                self.steps.push(step);
                true
            }
        };
        if same {
            self.done += 1;
        } else {
            self.instead.get_or_insert(step);
        }
        same
    }

    /// Whether the run did what it had to, and perhaps more.
    pub(crate) fn came_as_far(&self) -> bool {
        self.done == self.steps.len()
    }

    /// What the load found that was noted last.
    #[inline]
    pub(crate) fn found(&mut self, bytes: &[u8]) {
        if let (1..=WORD, Some(step)) = (bytes.len(), self.done.checked_sub(1)) {
            let mut word = [0; WORD];
            word[..bytes.len()].copy_from_slice(bytes);
            self.steps[step].arg = u64::from_le_bytes(word);
        }
    }

    /// How many steps the run under way has done.
    pub(crate) fn done(&self) -> usize {
        self.done
    }

    /// Whether the run, which is over, did all that it had to.
    pub(crate) fn is_done(&self) -> bool {
        self.instead.is_none() && self.done == self.steps.len()
    }

    /// Of the last steps, at most so many: how many there are, and which operations they were at
    /// which places, the most frequent first.
    pub(crate) fn last(&self, most: usize) -> (usize, Vec<(usize, String)>) {
        let steps = &self.steps[self.done.saturating_sub(most)..self.done];
        let mut places: Vec<(usize, String)> = Vec::new();
        for step in steps {
            let name = step.verb().name();
            let what = format!("{name} at {}:{}", step.at.file(), step.at.line());
            match places.iter_mut().find(|(_, other)| *other == what) {
                Some((times, _)) => *times += 1,
                None => places.push((1, what)),
            }
        }
        places.sort_by_key(|(times, _)| std::cmp::Reverse(*times));
        (steps.len(), places)
    }

    /// The way that the run took through the source.
    pub(crate) fn way(&self) -> u64 {
        let mut hasher = FxBuildHasher.build_hasher();
        self.steps.iter().for_each(|step| hasher.write_usize(std::ptr::from_ref(step.at) as usize));
        hasher.finish()
    }

    /// Where two runs parted: what both did, what the first did next, and what the second.
    pub(crate) fn parted(&self) -> (&[Step], &[Step], Option<&Step>) {
        let (both, first) = self.steps.split_at(self.done);
        (both, first, self.instead.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::Location;

    #[test]
    fn every_instruction_comes_out_as_it_went_in() {
        let at = Location::caller();
        let write = Write { word: 77, bytes: [1, 2, 3, 4, 5, 6, 7, 0xff], mask: 0b1010_0101 };
        for kind in [
            Kind::Store(write),
            Kind::Stream(write),
            Kind::Locked(write),
            Kind::LockedOnly,
            Kind::Flushopt(9),
            Kind::Flush(9),
            Kind::Sfence,
            Kind::Mfence,
            Kind::Mark(u64::MAX),
            Kind::Acknowledge(5),
        ] {
            let (events, reads) = told(&[Step::event(kind, at)]);
            assert_eq!((events[0].kind, reads.len()), (kind, 0));
        }
        assert_eq!(size_of::<Step>(), 24);
    }

    #[test]
    fn what_a_load_found_is_told_and_not_compared() {
        let at = Location::caller();
        let mut log = Log::default();
        log.begin(0);
        assert!(log.note(Step::load(8, 8, at)));
        log.found(&7u64.to_le_bytes());
        log.again();
        assert!(log.note(Step::load(8, 8, at)) && log.is_done());
        assert!(matches!(&told(log.parted().0).1[0].what, What::Load(8, bytes) if bytes[0] == 7));
        assert!(!log.note(Step::load(16, 8, at)) && !log.is_done());
    }
}
