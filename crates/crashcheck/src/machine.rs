//! The memory that a program under check runs on.

use std::cell::RefCell;
use std::ops::Range;
use std::panic::Location;

use ringfence_persist::{Memory, checksum};

use crate::content::{Bytes, bits, words_in};
use crate::event::{At, Kind, WORD, Write};
use crate::fix::Op;
use crate::run::{Read, Run, What};

/// Memory that records what is done to it, and that may crash: see [`crate::Check`].
///
/// Besides the operations of [`Memory`] it has the single instructions, for those who check what exactly they
/// promise, and [`mark`](Machine::mark) and [`acknowledge`](Machine::acknowledge).
#[derive(Debug)]
pub struct Machine(pub(crate) RefCell<Run>);

#[cfg(test)]
impl Machine {
    pub(crate) fn new(profile: crate::Profile, len: usize, strong_flushes: bool) -> Self {
        Self(RefCell::new(Run::new(profile, len, strong_flushes, std::rc::Rc::default())))
    }

    pub(crate) fn into_events(self) -> Vec<crate::Event> {
        self.0.into_inner().events
    }
}

impl Machine {
    /// Notes something that the recovery of every later crash is told of: that something has begun, say.
    #[track_caller]
    pub fn mark(&self, mark: u64) {
        self.record(Kind::Mark(mark), Location::caller());
    }

    /// As [`mark`](Self::mark), and says to the world that what was stored so far is durable: a lint tells
    /// where it is not.
    #[track_caller]
    pub fn acknowledge(&self, mark: u64) {
        self.record(Kind::Acknowledge(mark), Location::caller());
    }

    /// What was marked or acknowledged so far, in order.
    pub fn marks(&self) -> Vec<u64> {
        self.0.borrow().marks.clone()
    }

    /// `clwb` or `clflushopt` of the line that holds the byte.
    #[track_caller]
    pub fn clwb(&self, at: usize) {
        self.record(Kind::Flushopt(at / 64), Location::caller());
        self.edited(Op::Flush, at..at + 1, Location::caller());
    }

    /// `clflush` of the line that holds the byte.
    #[track_caller]
    pub fn clflush(&self, at: usize) {
        self.record(Kind::Flush(at / 64), Location::caller());
        self.edited(Op::Flush, at..at + 1, Location::caller());
    }

    #[track_caller]
    fn within(&self, at: usize, len: usize) {
        let all = self.0.borrow().len;
        assert!(at <= all && len <= all - at, "{len} bytes at {at} are not within the {all} bytes of memory");
    }

    fn record(&self, kind: Kind, at: At) {
        self.0.borrow_mut().record(kind, at);
    }

    fn write(&self, at: usize, bytes: &[u8], kind: impl Fn(Write) -> Kind, caller: At) {
        let run = &mut *self.0.borrow_mut();
        let mut rest = bytes;
        for (word, within) in words_in(&(at..at + bytes.len())) {
            let (now, later) = rest.split_at(within.len());
            let mut write = Write { word, bytes: [0; WORD], mask: bits(&within) };
            write.bytes[within].copy_from_slice(now);
            run.record(kind(write), caller);
            rest = later;
        }
    }

    // What somebody asks to have tried right behind an operation.
    fn edited(&self, op: Op, range: Range<usize>, at: At) {
        let run = &mut *self.0.borrow_mut();
        let Some(edit) = run.edit.filter(|edit| edit.concerns(op, at)) else { return };
        if edit.flush {
            for line in range.start / 64..range.end.div_ceil(64) {
                let flush = if edit.strong { Kind::Flush(line) } else { run.flush(line) };
                run.record(flush, at);
            }
        }
        if edit.fence {
            run.record(run.profile.fence(), at);
        }
    }
}

impl Run {
    fn note(&mut self, at: At, what: impl FnOnce() -> What) {
        let events = self.own_events().len();
        // Nobody follows a story any longer, and an endless one would fill memory.
        if let Some(reads) = self.reads.as_mut().filter(|reads| reads.len() < 10_000) {
            reads.push(Read { at, events, what: what() });
        }
    }

    fn flush(&self, line: usize) -> Kind {
        if self.strong_flushes { Kind::Flush(line) } else { Kind::Flushopt(line) }
    }
}

// The words of two ranges, each with its bytes that count, in order of their numbers.
fn words_of(pieces: &[Range<usize>; 2]) -> Vec<(usize, u8)> {
    let mut words: Vec<(usize, u8)> =
        pieces.iter().flat_map(words_in).map(|(word, within)| (word, bits(&within))).collect();
    // The ranges may meet in a word.
    words.sort_unstable_by_key(|(word, _)| *word);
    words.dedup_by(|(other, more), (word, mask)| {
        let same = word == other;
        if same {
            *mask |= *more;
        }
        same
    });
    words
}

fn bytes_of(pieces: &[Range<usize>; 2], words: &[(usize, u8)], values: &[Bytes], into: &mut Vec<u8>) {
    into.clear();
    for (word, within) in pieces.iter().flat_map(words_in) {
        let number = words.binary_search_by_key(&word, |(word, _)| *word).expect("a word of the ranges");
        into.extend_from_slice(&values[number][within]);
    }
}

impl Memory for Machine {
    fn len(&self) -> usize {
        self.0.borrow().len
    }

    #[track_caller]
    fn load(&self, at: usize, into: &mut [u8]) {
        self.within(at, into.len());
        let run = &mut *self.0.borrow_mut();
        let mut done = 0;
        for (word, within) in words_in(&(at..at + into.len())) {
            let bytes = run.read(word, bits(&within), Location::caller());
            let len = within.len();
            into[done..done + len].copy_from_slice(&bytes[within]);
            done += len;
        }
        run.note(Location::caller(), || What::Load(at, into.to_vec()));
    }

    #[track_caller]
    fn load_u64(&self, at: usize) -> u64 {
        assert!(at.is_multiple_of(8), "{at} is no multiple of 8");
        self.within(at, 8);
        let run = &mut *self.0.borrow_mut();
        let bytes = run.read(at / WORD, 0xff, Location::caller());
        run.note(Location::caller(), || What::Load(at, bytes.to_vec()));
        u64::from_le_bytes(bytes)
    }

    #[track_caller]
    fn store(&self, at: usize, bytes: &[u8]) {
        self.within(at, bytes.len());
        self.write(at, bytes, Kind::Store, Location::caller());
        self.edited(Op::Store, at..at + bytes.len(), Location::caller());
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
        self.edited(Op::Stream, at..at + bytes.len(), Location::caller());
    }

    #[track_caller]
    fn flush(&self, range: Range<usize>) {
        if range.is_empty() {
            return;
        }
        self.within(range.start, range.len());
        {
            let run = &mut *self.0.borrow_mut();
            for line in range.start / 64..range.end.div_ceil(64) {
                run.record(run.flush(line), Location::caller());
            }
        }
        self.edited(Op::Flush, range, Location::caller());
    }

    #[track_caller]
    fn sfence(&self) {
        self.record(Kind::Sfence, Location::caller());
        self.edited(Op::Fence, 0..0, Location::caller());
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
        self.edited(Op::Store, at..at + 8, Location::caller());
        Ok(found)
    }

    #[track_caller]
    fn verify(&self, pieces: [Range<usize>; 2], seed: u64, sum: u64) -> bool {
        pieces.iter().for_each(|piece| self.within(piece.start, piece.len()));
        let run = &mut *self.0.borrow_mut();
        run.work(1);
        let mut buffer = std::mem::take(&mut run.buffer);
        let fits = if run.content.gather(&pieces, &mut buffer) {
            checksum::of(&buffer, seed) == sum
        } else {
            let words = words_of(&pieces);
            run.verify(&words, sum, |values| {
                bytes_of(&pieces, &words, values, &mut buffer);
                checksum::of(&buffer, seed) == sum
            })
        };
        run.buffer = buffer;
        run.note(Location::caller(), || What::Verify(pieces, fits));
        fits
    }
}
