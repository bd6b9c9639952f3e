//! What a crash can leave of a recorded program's stores, event by event.

use std::ops::Range;

use crate::bytes::Bytes;
use crate::crash_image::{CrashImage, Outcome, Walk};
use crate::event::{Kind, WORD};
use crate::fate::Fate;
use crate::profile::Profile;

/// How stores to a mapped file become durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WrittenBack {
    /// By lines of 64 bytes, under the rules of a processor: memory is the medium.
    ByLines(Profile),
    /// By sectors of this many bytes, a multiple of 8: the kernel may write a page back at any
    /// moment, and a crash may leave each of its sectors old or new. The processor's flushes and
    /// fences have no effect; only [`Recorded::sync_ends`] makes stores durable.
    BySectors(usize),
}

/// The state of a recorded program after the events so far, and what a crash would leave.
///
/// The order of the stores is that of the one execution that was recorded. A fence waits for its
/// own thread's flushes and non-temporal stores only. Offsets are in one address space, in which
/// the files are placed one after the other.
///
/// ```
/// use ringfence_crashcheck::{Kind, Profile, Recorded, Write, WrittenBack};
///
/// let mut recorded = Recorded::new(WrittenBack::ByLines(Profile::IntelAdr));
/// let write = Write { word: 8, bytes: 42u64.to_le_bytes(), mask: 0xff };
/// recorded.step(0, Kind::Store(write));
/// let mut leaves = recorded.leaves();
/// let unit = leaves.units()[0];
/// assert_eq!((leaves.bytes_of(unit), leaves.ways(unit)), (64..128, 2));
/// leaves.decide(unit, 0);
/// assert_eq!(leaves.word(8), Some(([0; 8], 0)), "it is lost");
///
/// recorded.step(0, Kind::Flushopt(1));
/// recorded.step(0, Kind::Sfence);
/// assert_eq!(recorded.leaves().units(), []);
/// assert_eq!(recorded.leaves().word(8), Some((42u64.to_le_bytes(), 0xff)), "it is durable");
/// ```
#[derive(Debug, Clone)]
pub struct Recorded {
    walk: Walk,
    by_sectors: bool,
}

/// What a crash leaves: some of it certain, some of it open until it is decided.
#[derive(Debug, Clone)]
pub struct Leaves {
    image: CrashImage,
    by_sectors: bool,
}

/// A unit that a crash leaves in one of several ways, independently of other units, except where
/// Intel's `clflush` orders two of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unit {
    /// A line or a sector, by its number: some first part of its stores is there. Under eADR it is
    /// all of memory.
    Group(usize),
    /// A word of a non-temporal store, by the store's number: it is there or not.
    Streamed(u32),
}

/// One way in which a word can have come out.
#[derive(Debug, Clone)]
pub struct Content(Outcome);

impl Content {
    /// The bytes that are there of what was stored, and which (bit `i`: byte `i`); the others are
    /// as before the first store.
    pub fn bytes(&self) -> (Bytes, u8) {
        (self.0.bytes, self.0.mask)
    }
}

impl Recorded {
    /// Before the first event.
    ///
    /// # Panics
    /// If a sector is no multiple of 8 bytes, or 0.
    pub fn new(written_back: WrittenBack) -> Self {
        let (walk, by_sectors) = match written_back {
            WrittenBack::ByLines(profile) => (Walk::new(profile, false), false),
            WrittenBack::BySectors(bytes) => {
                assert!(bytes > 0 && bytes % WORD == 0, "{bytes} bytes are no sector");
                (Walk::of_groups(Profile::Amd, bytes / WORD, false), true)
            }
        };
        Self { walk, by_sectors }
    }

    /// One more instruction of a thread.
    pub fn step(&mut self, thread: u32, kind: Kind) {
        let ordinary = if self.by_sectors { in_page_cache(kind) } else { Some(kind) };
        if let Some(kind) = ordinary {
            self.walk.step_of(thread, kind);
        }
    }

    /// A call begins that makes durable what is stored in these bytes now, such as `msync`; `call`
    /// is a number of its own.
    pub fn sync_begins(&mut self, call: u32, bytes: Range<usize>) {
        if !bytes.is_empty() {
            self.walk.call_begins(call, bytes.start / WORD..bytes.end.div_ceil(WORD));
        }
    }

    /// It ends, and has made that durable.
    pub fn sync_ends(&mut self, call: u32) {
        self.walk.call_ends(call);
    }

    /// What a crash leaves now.
    pub fn leaves(&self) -> Leaves {
        Leaves { image: self.walk.image(), by_sectors: self.by_sectors }
    }

    /// Whether a crash can leave only one thing now.
    pub fn is_certain(&self) -> bool {
        self.walk.is_settled()
    }

    /// The words, by their numbers, of which something else can have become since this was asked
    /// before; in order.
    pub fn changed(&mut self) -> Vec<usize> {
        let mut words = std::mem::take(self.walk.changed());
        words.sort_unstable();
        words.dedup();
        words
    }
}

impl Leaves {
    /// What is open, in the order of memory.
    pub fn units(&self) -> Vec<Unit> {
        let mut units: Vec<Unit> = self.image.open_groups().into_iter().map(Unit::Group).collect();
        units.extend(self.image.open_streams().into_iter().map(Unit::Streamed));
        units.sort_by_key(|unit| (self.bytes_of(*unit).start, *unit));
        units
    }

    /// Where it lies.
    pub fn bytes_of(&self, unit: Unit) -> Range<usize> {
        match unit {
            Unit::Group(group) => self.image.bytes_of_group(group),
            Unit::Streamed(number) => {
                let word = self.image.word_of_stream(number);
                word * WORD..(word + 1) * WORD
            }
        }
    }

    /// In how many ways it can have come out, given what is decided; 1 where it is certain.
    pub fn ways(&self, unit: Unit) -> u32 {
        match unit {
            Unit::Group(group) => self.image.counts(group).len() as u32,
            Unit::Streamed(number) => self.image.ways_of_stream(number),
        }
    }

    /// Settles that it came out in this way: 0 is the oldest, and the last the newest. What follows
    /// from that for others is settled, too.
    ///
    /// # Panics
    /// If it has fewer [`ways`](Self::ways).
    pub fn decide(&mut self, unit: Unit, way: u32) {
        assert!(way < self.ways(unit), "way {way} of {}", self.ways(unit));
        match unit {
            Unit::Group(group) => {
                let count = self.image.counts(group).start + way;
                self.image.decide_group(group, count);
            }
            Unit::Streamed(number) => self.image.decide_stream(number, way > 0),
        }
    }

    /// The bytes that are there of what was stored to a word, and which (bit `i`: byte `i`); the
    /// others are as before the first store. `None` where that is open.
    pub fn word(&self, word: usize) -> Option<(Bytes, u8)> {
        self.image.plain(word)
    }

    /// Every way in which a word can have come out, given what is decided; never none. Where it is
    /// certain, there is one. Ways between which no load can tell are one way.
    pub fn contents(&self, word: usize) -> Vec<Content> {
        self.image.outcomes(word).into_iter().map(Content).collect()
    }

    /// Settles that a word came out so, and what follows from that for others.
    ///
    /// # Panics
    /// If it is none of its [`contents`](Self::contents).
    pub fn decide_word(&mut self, content: &Content) {
        assert!(self.image.decide(&content.0), "it contradicts what is decided");
    }

    /// Whether a word came out so here, where all of it is decided.
    pub fn has(&self, content: &Content) -> bool {
        self.image.has(&content.0)
    }

    /// In which of the ways that `open` has of a unit it came out here, where that is decided; else
    /// in the oldest that is left. This has to be made of `open` by decisions.
    pub fn way_in(&self, open: &Self, unit: Unit) -> u32 {
        match unit {
            Unit::Group(group) => self.image.counts(group).start - open.image.counts(group).start,
            Unit::Streamed(number) => u32::from(self.image.is_there(number) == Some(true)),
        }
    }

    /// Whether as much of a unit can be lost here as it is if it came out in this way in `other`,
    /// which has had the same stores, and other flushes, fences or calls.
    pub fn loses_as_much(&self, other: &Self, unit: Unit, way: u32) -> bool {
        match unit {
            Unit::Group(_) => self.ways(unit) + way >= other.ways(unit),
            Unit::Streamed(number) => {
                let word = other.image.word_of_stream(number);
                let mut open = self.image.open_streams().into_iter();
                way > 0 || open.any(|number| self.image.word_of_stream(number) == word)
            }
        }
    }

    /// What became of each store of the instructions so far, in their order.
    pub fn fates(&self, kinds: &[Kind]) -> Vec<Fate> {
        let kinds = kinds.iter().rev().copied();
        match self.by_sectors {
            true => self.image.fates_of(kinds.filter_map(in_page_cache)),
            false => self.image.fates_of(kinds),
        }
    }
}

// The page cache holds every store in program order; flushes and fences do not affect it.
fn in_page_cache(kind: Kind) -> Option<Kind> {
    kind.write().map(Kind::Store)
}
