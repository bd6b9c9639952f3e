//! The memory that a program under check runs on.

use std::cell::{RefCell, RefMut};
use std::hash::BuildHasher;
use std::ops::Range;
use std::panic::Location;
use std::sync::Arc;

use ringfence_persist::memory::assert_in_order;
use ringfence_persist::{Memory, checksum};
use rustc_hash::FxBuildHasher;

use crate::bytes::{Bytes, bits, words_in};
use crate::event::{At, Kind, Source, WORD, Write};
use crate::fix::{Added, Change, Op};
use crate::log::Step;
use crate::past::{Read, What};
use crate::run::Run;
use crate::stop::{Stop, Unfenced};

/// Memory that records what is done to it, and that may crash: see [`crate::Check`].
///
/// Besides the operations of [`Memory`] it has the single instructions, for callers that check what
/// exactly they promise, and [`mark`](Machine::mark) and [`acknowledge`](Machine::acknowledge).
#[derive(Debug)]
pub struct Machine(pub(crate) RefCell<Run>);

#[cfg(test)]
impl Machine {
    pub(crate) fn new(profile: crate::Profile, len: usize, strong_flushes: bool) -> Self {
        let mut run = Run::new(profile, len, strong_flushes, std::rc::Rc::default());
        run.unfenced = true;
        Self(RefCell::new(run))
    }

    pub(crate) fn into_events(self) -> Vec<crate::Event> {
        self.0.into_inner().events
    }
}

impl Machine {
    /// Notes a mark that the recovery of every later crash receives: that an operation has started,
    /// for example.
    #[track_caller]
    pub fn mark(&self, mark: u64) {
        self.record(Kind::Mark(mark), Location::caller());
    }

    /// As [`mark`](Self::mark), and acknowledges that all stores so far are durable: a lint reports
    /// those that are not.
    #[track_caller]
    pub fn acknowledge(&self, mark: u64) {
        self.record(Kind::Acknowledge(mark), Location::caller());
    }

    /// What was marked or acknowledged so far, in order.
    pub fn marks(&self) -> Vec<u64> {
        self.0.borrow().all_marks()
    }

    /// `clwb` or `clflushopt` of the line that holds the byte.
    #[track_caller]
    pub fn clwb(&self, at: usize) {
        self.within(at, 1);
        if !self.left_out(Op::Flush, Location::caller()) {
            self.record(Kind::Flushopt(at / 64), Location::caller());
        }
        self.edited(Op::Flush, at..at + 1, Location::caller());
    }

    /// `clflush` of the line that holds the byte.
    #[track_caller]
    pub fn clflush(&self, at: usize) {
        self.within(at, 1);
        if !self.left_out(Op::Flush, Location::caller()) {
            self.record(Kind::Flush(at / 64), Location::caller());
        }
        self.edited(Op::Flush, at..at + 1, Location::caller());
    }

    #[track_caller]
    fn within(&self, at: usize, len: usize) {
        assert_within(at, len, self.0.borrow().len);
    }

    // The run, on a range that may be read, or stored to by ordinary stores.
    #[inline]
    #[track_caller]
    fn accessing(&self, start: usize, len: usize) -> RefMut<'_, Run> {
        let mut run = self.0.borrow_mut();
        assert_within(start, len, run.len);
        if let Some(stored) = run.streaming.meets(&(start..start + len)).filter(|_| !run.unfenced) {
            run.stop(Stop::Unfenced(Unfenced { start, len, at: Location::caller(), stored }));
        }
        run
    }

    // On no bytes at all: nothing happens, and not forever.
    fn pass(&self, kind: Kind, at: Source) {
        self.0.borrow_mut().step(Step::event(kind, at), 1);
    }

    fn record(&self, kind: Kind, at: Source) {
        self.0.borrow_mut().record(kind, at);
    }

    fn write(&self, at: usize, bytes: &[u8], kind: impl Fn(Write) -> Kind, caller: Source) {
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

    // `asked` is a number for what is asked of the bytes.
    #[track_caller]
    fn verified(
        &self,
        name: Option<&str>,
        asked: u64,
        pieces: &[Range<usize>],
        fits: &dyn Fn(&[u8]) -> bool,
    ) -> bool {
        // A closure would be the caller in its own right.
        for piece in pieces {
            assert_in_order(piece);
            drop(self.accessing(piece.start, piece.len()));
        }
        let run = &mut *self.0.borrow_mut();
        let first = pieces.first().map_or(0, |piece| piece.start);
        let lines = pieces.iter().map(|piece| piece.len() / 64 + 1).sum();
        run.step(
            Step::verify(first, FxBuildHasher.hash_one((asked, pieces)), Location::caller()),
            lines,
        );
        let mut buffer = std::mem::take(&mut run.buffer);
        let found = if run.content.gather(pieces, &mut buffer) {
            fits(&buffer)
        } else {
            let words = words_of(pieces);
            let watched = Arc::clone(&run.watched);
            watched.busy(true);
            let found = run.verify(&words, |values| {
                bytes_of(pieces, &words, values, &mut buffer);
                // That is the user's, and may hang.
                watched.busy(false);
                let fits = fits(&buffer);
                watched.busy(true);
                fits
            });
            watched.busy(false);
            found
        };
        run.buffer = buffer;
        run.note(Location::caller(), || {
            What::Verify(name.map(str::to_owned), pieces.to_vec(), found)
        });
        found
    }

    // Whether it is to be tried without this operation.
    fn left_out(&self, op: Op, at: Source) -> bool {
        let run = self.0.borrow();
        run.edits
            .iter()
            .any(|edit| edit.change == Change::LeaveOut && edit.concerns(op, At::Source(at)))
    }

    // What is to be tried right behind an operation.
    fn edited(&self, op: Op, range: Range<usize>, at: Source) {
        let run = &mut *self.0.borrow_mut();
        if let Some(places) = &run.at_once
            && let Some(added) = op.at_once(run.profile)
        {
            places.borrow_mut().insert((op, At::Source(at)));
            run.add(added, &range, at);
        }
        for number in 0..run.edits.len() {
            let edit = run.edits[number];
            if let Some(added) = edit.added().filter(|_| edit.concerns(op, At::Source(at))) {
                run.add(added, &range, at);
            }
        }
    }
}

#[inline]
#[track_caller]
fn assert_within(at: usize, len: usize, all: usize) {
    assert!(
        at <= all && len <= all - at,
        "{len} bytes at {at} are not within the {all} bytes of memory"
    );
}

impl Run {
    #[inline]
    fn note(&mut self, at: Source, what: impl FnOnce() -> What) {
        let events = self.events.len();
        // No reader follows a longer story, and an endless one would fill memory.
        if let Some(reads) = self.reads.as_mut().filter(|reads| reads.len() < 10_000) {
            reads.push(Read { at, events, what: what() });
        }
    }

    fn add(&mut self, added: Added, range: &Range<usize>, at: Source) {
        if added.flush {
            for line in range.start / 64..range.end.div_ceil(64) {
                let flush = if added.strong { Kind::Flush(line) } else { self.flush(line) };
                self.record(flush, at);
            }
        }
        if added.fence {
            self.record(self.profile.fence(), at);
        }
    }

    fn flush(&self, line: usize) -> Kind {
        if self.strong_flushes { Kind::Flush(line) } else { Kind::Flushopt(line) }
    }
}

// The words of ranges, each with its bytes that count, in order of their numbers.
fn words_of(pieces: &[Range<usize>]) -> Vec<(usize, u8)> {
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

fn bytes_of(pieces: &[Range<usize>], words: &[(usize, u8)], values: &[Bytes], into: &mut Vec<u8>) {
    into.clear();
    for piece in pieces.iter().filter(|piece| !piece.is_empty()) {
        // All words of a piece are there, one behind the other.
        let first = piece.start / WORD;
        let number = words.partition_point(|(word, _)| *word < first);
        for (value, (_, within)) in values[number..].iter().zip(words_in(piece)) {
            into.extend_from_slice(&value[within]);
        }
    }
}

impl Memory for Machine {
    fn len(&self) -> usize {
        self.0.borrow().len
    }

    #[track_caller]
    fn load(&self, at: usize, into: &mut [u8]) {
        let run = &mut *self.accessing(at, into.len());
        run.step(Step::load(at, into.len(), Location::caller()), into.len() / 64 + 1);
        let mut done = 0;
        for (word, within) in words_in(&(at..at + into.len())) {
            let bytes = run.read(word, bits(&within), Location::caller());
            let len = within.len();
            into[done..done + len].copy_from_slice(&bytes[within]);
            done += len;
        }
        run.log.found(into);
        run.note(Location::caller(), || What::Load(at, into.to_vec()));
    }

    #[track_caller]
    fn load_u64(&self, at: usize) -> u64 {
        assert!(at.is_multiple_of(8), "{at} is not a multiple of 8");
        let run = &mut *self.accessing(at, WORD);
        run.step(Step::load(at, WORD, Location::caller()), 1);
        let bytes = run.read(at / WORD, 0xff, Location::caller());
        run.log.found(&bytes);
        run.note(Location::caller(), || What::Load(at, bytes.to_vec()));
        u64::from_le_bytes(bytes)
    }

    #[track_caller]
    fn store(&self, at: usize, bytes: &[u8]) {
        drop(self.accessing(at, bytes.len()));
        if bytes.is_empty() {
            return self.pass(Kind::Store(Write::nothing(at)), Location::caller());
        }
        self.write(at, bytes, Kind::Store, Location::caller());
        self.edited(Op::Store, at..at + bytes.len(), Location::caller());
    }

    #[track_caller]
    fn store_u64(&self, at: usize, value: u64) {
        assert!(at.is_multiple_of(8), "{at} is not a multiple of 8");
        self.store(at, &value.to_le_bytes());
    }

    #[track_caller]
    fn store_nt(&self, at: usize, bytes: &[u8]) {
        assert!(
            at.is_multiple_of(8) && bytes.len().is_multiple_of(8),
            "{} bytes at {at}",
            bytes.len()
        );
        self.within(at, bytes.len());
        if bytes.is_empty() {
            return self.pass(Kind::Stream(Write::nothing(at)), Location::caller());
        }
        self.write(at, bytes, Kind::Stream, Location::caller());
        self.0.borrow_mut().streaming.stored(at..at + bytes.len(), Location::caller());
        self.edited(Op::Stream, at..at + bytes.len(), Location::caller());
    }

    #[track_caller]
    fn flush(&self, range: Range<usize>) {
        assert_in_order(&range);
        self.within(range.start, range.len());
        if range.is_empty() {
            return self.pass(Kind::Flushopt(range.start / 64), Location::caller());
        }
        if !self.left_out(Op::Flush, Location::caller()) {
            let run = &mut *self.0.borrow_mut();
            for line in range.start / 64..range.end.div_ceil(64) {
                run.record(run.flush(line), Location::caller());
            }
        }
        self.edited(Op::Flush, range, Location::caller());
    }

    #[track_caller]
    fn sfence(&self) {
        if !self.left_out(Op::Fence, Location::caller()) {
            self.record(Kind::Sfence, Location::caller());
        }
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
        let asked = FxBuildHasher.hash_one((seed, sum));
        self.verified(None, asked, &pieces, &|bytes| checksum::of(bytes, seed) == sum)
    }

    #[track_caller]
    fn verify_with(
        &self,
        name: &str,
        pieces: [Range<usize>; 2],
        fits: &dyn Fn(&[u8]) -> bool,
    ) -> bool {
        self.verified(Some(name), FxBuildHasher.hash_one(name), &pieces, fits)
    }
}
