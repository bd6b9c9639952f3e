//! The ring: an entry says of itself where it stands and in which life it was pushed; a word beside
//! the entries says which life this is, and where it started.

use std::ops::Range;

use ringfence_crashcheck::Machine;
use ringfence_persist::{Memory, checksum};

use crate::case::{ensure, persist};

// The life and the position that it started at, as one word.
pub const LIFE: usize = 0;
pub const CURSOR: usize = 64;
pub const ENTRIES: usize = 128;
pub const LINES: u64 = 4;
// An entry: checksum, position, life and length, payload.
pub const HEAD: usize = 24;

// Which parts are there.
#[derive(Debug, Clone, Copy)]
pub struct Parts {
    // Entries carry the life that they were pushed in.
    pub life: bool,
    // Where this life started counts: entries behind it must be of this life.
    pub start: bool,
    pub covers: Covers,
    pub salt: u64,
    // Life and start are one word, replaced at once.
    pub one_record: bool,
    // The next life is recorded before anything is pushed in it.
    pub life_first: bool,
    // What was accepted is flushed before the life that rests on it is recorded.
    pub accepted_flushed: bool,
    // The producer goes by the cursor that is durable.
    pub behind_cursor: bool,
    // An entry is fenced before its push returns.
    pub fenced: bool,
    // Entries are written by ordinary stores; no part of the scheme.
    pub cached: bool,
}

#[derive(Debug, Clone, Copy)]
pub enum Covers {
    All,
    AllButPosition,
    AllButLength,
}

impl Covers {
    // The pieces of an entry that its checksum is over.
    fn pieces(self, at: usize, len: usize) -> [Range<usize>; 2] {
        match self {
            Covers::All => [at + 8..at + HEAD + len, 0..0],
            Covers::AllButPosition => [at + 16..at + HEAD + len, 0..0],
            Covers::AllButLength => [at + 8..at + 16, at + HEAD..at + 64],
        }
    }
}

pub const WHOLE: Parts = Parts {
    life: true,
    start: true,
    covers: Covers::All,
    salt: 0x5eed,
    one_record: true,
    life_first: true,
    accepted_flushed: true,
    behind_cursor: true,
    fenced: true,
    cached: false,
};

pub struct Ring<'m> {
    m: &'m Machine,
    parts: Parts,
    life: u64,
    // Positions are counted in lines, from 0.
    start: u64,
    end: u64,
    // The cursor as it was last made durable.
    durable: u64,
}

#[derive(Debug)]
pub struct Entry {
    pub lines: u64,
    pub payload: Vec<u8>,
}

impl Entry {
    pub fn number(&self) -> u64 {
        self.payload.first().copied().unwrap_or(0).into()
    }
}

pub fn place(position: u64) -> usize {
    ENTRIES + (position % LINES) as usize * 64
}

pub fn image(parts: &Parts, position: u64, life: u64, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; (HEAD + payload.len()).next_multiple_of(64)];
    bytes[8..16].copy_from_slice(&position.to_le_bytes());
    bytes[16..24].copy_from_slice(&(life << 32 | payload.len() as u64).to_le_bytes());
    bytes[HEAD..HEAD + payload.len()].copy_from_slice(payload);
    let pieces = parts.covers.pieces(0, payload.len());
    let sum = checksum::of_pieces(pieces.map(|piece| &bytes[piece]), parts.salt);
    bytes[..8].copy_from_slice(&sum.to_le_bytes());
    bytes
}

impl<'m> Ring<'m> {
    pub fn format(m: &'m Machine, parts: Parts) -> Self {
        let ring = Self { m, parts, life: 1, start: 0, end: 0, durable: 0 };
        ring.record_life();
        m.mark(FORMATTED);
        ring
    }

    pub fn record_life(&self) {
        if self.parts.one_record {
            self.m.store_u64(LIFE, self.life << 32 | self.start);
        } else {
            self.m.store_u64(LIFE, self.life << 32);
            self.m.store_u64(LIFE + 8, self.start);
        }
        persist(self.m, LIFE..LIFE + 16);
    }

    // Writes an entry that is not durable yet.
    pub fn write(&mut self, payload: &[u8]) {
        let life = if self.parts.life { self.life } else { 0 };
        let bytes = image(&self.parts, self.end, life, payload);
        for (line, piece) in bytes.chunks(64).enumerate() {
            let at = place(self.end + line as u64);
            if self.parts.cached {
                self.m.store(at, piece);
            } else {
                self.m.store_nt(at, piece);
            }
        }
        self.end += bytes.len() as u64 / 64;
    }

    pub fn push(&mut self, number: u64) {
        let cursor = if self.parts.behind_cursor { self.durable } else { self.m.load_u64(CURSOR) };
        if self.end < cursor + LINES {
            self.m.mark(BEGUN + number);
            let at = place(self.end);
            self.write(&payload(number));
            if self.parts.cached {
                self.m.flush(at..at + 64);
            }
            if self.parts.fenced {
                self.m.sfence();
            }
            self.m.acknowledge(PUSHED + number);
        }
    }

    fn entry(&self, position: u64) -> Option<Entry> {
        let at = place(position);
        let word = self.m.load_u64(at + 16);
        let (life, len) = (word >> 32, (word & 0xffff_ffff) as usize);
        let lines = (HEAD + len).div_ceil(64) as u64;
        let is_of_life = match self.parts {
            Parts { life: false, .. } => true,
            Parts { start: false, .. } => life <= self.life,
            _ if position >= self.start => life == self.life,
            _ => life < self.life,
        };
        let fits = position % LINES + lines <= LINES;
        if !is_of_life || !fits || self.m.load_u64(at + 8) != position {
            return None;
        }
        let pieces = self.parts.covers.pieces(at, len);
        self.m.verify(pieces, self.parts.salt, self.m.load_u64(at)).then(|| {
            let mut payload = vec![0; len];
            self.m.load(at + HEAD, &mut payload);
            Entry { lines, payload }
        })
    }

    // The ring in its next life, and the entries that are there.
    pub fn recover(m: &'m Machine, parts: Parts) -> Result<(Self, Vec<Entry>), String> {
        let record = m.load_u64(LIFE);
        let start = if parts.one_record { record & 0xffff_ffff } else { m.load_u64(LIFE + 8) };
        let cursor = m.load_u64(CURSOR);
        let mut ring = Self { m, parts, life: record >> 32, start, end: cursor, durable: cursor };
        let mut entries = Vec::new();
        while ring.end < cursor + LINES
            && let Some(entry) = ring.entry(ring.end)
        {
            ring.end += entry.lines;
            entries.push(entry);
        }
        ensure(
            ring.end >= start,
            format!("corrupt: the chain ends at {}, before {start}", ring.end),
        )?;
        if parts.accepted_flushed {
            m.flush(ENTRIES..ENTRIES + LINES as usize * 64);
        }
        m.sfence();
        ring.life += 1;
        ring.start = ring.end;
        if parts.life_first {
            ring.record_life();
        }
        Ok((ring, entries))
    }

    // Moves the cursor past an entry. Not durable yet.
    pub fn pop(&self, lines: u64) {
        self.m.store_u64(CURSOR, self.m.load_u64(CURSOR) + lines);
    }

    pub fn commit(&mut self) {
        persist(self.m, CURSOR..CURSOR + 8);
        self.durable = self.m.load_u64(CURSOR);
    }

    pub fn pop_durably(&mut self, number: u64, lines: u64) {
        self.m.mark(POPPING + number);
        self.pop(lines);
        self.commit();
        self.m.acknowledge(POPPED + number);
    }
}

// Marks: a kind, and the number of the entry.
pub const FORMATTED: u64 = 1;
pub const BEGUN: u64 = 1000;
pub const PUSHED: u64 = 2000;
pub const POPPING: u64 = 3000;
pub const POPPED: u64 = 4000;
pub const PROCESSED: u64 = 5000;

pub fn marked(m: &Machine, kind: u64) -> impl Iterator<Item = u64> {
    m.marks().into_iter().filter(move |mark| mark / 1000 == kind / 1000).map(|mark| mark % 1000)
}

// Each is filled with its number. One has the image of an entry in its second line, with the
// checksum of a writer that does not know the salt.
pub fn payload(number: u64) -> Vec<u8> {
    let plain = vec![number as u8; 8 + number as usize % 3 * 8];
    if number != IMITATOR {
        return plain;
    }
    let imitation = image(&Parts { salt: 0, ..WHOLE }, LINES + 1, 1, &payload(IMITATED));
    [&[number as u8; 64 - HEAD][..], &imitation[..HEAD + 8]].concat()
}

pub const IMITATOR: u64 = 100;
pub const IMITATED: u64 = 150;
