//! A set-associative cache of line numbers: what is in it, what is dirty, the owner each line was
//! filled for, and what is evicted.
//!
//! What is known of a set lies in as few lines of the caches of the machine that simulates as can
//! be: a search there costs more than all arithmetic, and so does each array more that has to be
//! looked into. Addresses are as if memory were physically contiguous.

mod order;
mod policy;

use policy::Policy;

use crate::hardware::machine::Replacement;

const EMPTY: u32 = u32::MAX;

/// A place in a cache.
pub type Slot = u32;

/// All ways.
pub const ALL_WAYS: u32 = u32::MAX;

/// Numbers in a row.
const ROW: usize = 16;
/// In a set's last row: which of its ways are dirty, a bit each; the policy's number, in two
/// halves; and before these, the owner that each way was filled for, four bits each, the first
/// eight ways last.
const DIRTY: usize = 15;
const WORD: usize = 13;
const OWNERS: usize = 12;

/// Line numbers of a set's ways, and behind those of the last row what else is known of the set.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Row([u32; ROW]);

/// A cache.
pub struct Cache {
    rows: Vec<Row>,
    policy: Policy,
    sets: u32,
    /// To find the remainder of a division by the number of sets without dividing (Lemire et al.,
    /// 2019).
    reciprocal: u64,
    /// Places of a set, as a power of two.
    shift: u32,
    /// Rows of a set.
    stride: usize,
    /// A bit for each way.
    all: u32,
}

/// What a cache says of a line that it gives up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Evicted {
    /// Which.
    pub line: u32,
    /// Whether memory, or the cache below, has older content.
    pub dirty: bool,
}

impl Cache {
    /// An empty cache.
    pub fn new(size_kib: u32, ways: u32, replacement: Replacement) -> Self {
        let sets = size_kib * 16 / ways;
        let shift = ways.next_power_of_two().max(8).trailing_zeros();
        let policy = Policy::new(replacement, sets, ways, shift);
        let stride = (ways as usize + ROW - OWNERS + (ways as usize - 1) / 8).div_ceil(ROW);
        let mut set = vec![Row([EMPTY; ROW]); stride];
        let last = &mut set[stride - 1].0;
        last[OWNERS + 1 - (ways as usize).div_ceil(8)..].fill(0);
        put_word(last, policy.word());
        Self {
            rows: set.repeat(sets as usize),
            policy,
            sets,
            reciprocal: (u64::MAX / u64::from(sets)).wrapping_add(1),
            shift,
            stride,
            all: !0 >> (32 - ways),
        }
    }

    /// Lines that it can have.
    pub fn capacity(&self) -> u32 {
        self.sets * self.all.count_ones()
    }

    /// Places, with those that only pad.
    pub fn slots(&self) -> usize {
        (self.sets as usize) << self.shift
    }

    #[inline]
    fn set(&self, line: u32) -> u32 {
        let fraction = self.reciprocal.wrapping_mul(u64::from(line));
        ((u128::from(fraction) * u128::from(self.sets)) >> 64) as u32
    }

    // The set of a place, and which of its ways it is.
    #[inline]
    fn split(&self, slot: Slot) -> (u32, u32) {
        let set = slot >> self.shift;
        (set, slot - (set << self.shift))
    }

    // The ways of a set that have a line, or are empty, a bit each.
    #[inline(always)]
    fn ways_with(&self, set: u32, line: u32) -> u32 {
        let first = set as usize * self.stride;
        let [low, high] = halves(&self.rows[first]);
        let mut ways = equal(low, line);
        if self.all > 0xff {
            ways |= equal(high, line) << 8;
            if self.all > 0xffff {
                let [low, high] = halves(&self.rows[first + 1]);
                ways |= (equal(low, line) | equal(high, line) << 8) << ROW;
            }
        }
        // Beyond the ways of a row stands what else is known: that may be equal by chance.
        ways & self.all
    }

    #[inline]
    fn tag(&mut self, set: u32, way: u32) -> &mut u32 {
        &mut self.rows[set as usize * self.stride + way as usize / ROW].0[way as usize % ROW]
    }

    fn last_row(&self, set: usize) -> &[u32; ROW] {
        &self.rows[(set + 1) * self.stride - 1].0
    }

    // The row of a set that says what is known of it.
    #[inline]
    fn known(&mut self, set: u32) -> &mut [u32; ROW] {
        &mut self.rows[(set as usize + 1) * self.stride - 1].0
    }

    /// Where a line is.
    #[inline]
    pub fn find(&self, line: u32) -> Option<Slot> {
        let set = self.set(line);
        let ways = self.ways_with(set, line);
        (ways != 0).then(|| (set << self.shift) + ways.trailing_zeros())
    }

    /// Asks for what is known of a line's set, so that it is at hand when it is looked into. The
    /// machine that simulates goes on meanwhile: nothing depends on what it reads here.
    #[inline(always)]
    pub fn ahead(&self, line: u32) {
        let first = self.set(line) as usize * self.stride;
        std::hint::black_box(self.rows[first].0[0]);
        if self.stride > 1 {
            std::hint::black_box(self.rows[first + self.stride - 1].0[0]);
        }
    }

    /// The line that is to make room for another, where it is known at once.
    #[inline(always)]
    pub fn leaving(&mut self, line: u32) -> Option<u32> {
        let set = self.set(line);
        let word = word(self.known(set));
        let way = self.policy.next(word)?;
        Some(*self.tag(set, way)).filter(|leaving| *leaving != EMPTY)
    }

    /// Whether a place has this line.
    #[inline]
    pub fn holds(&self, slot: Slot, line: u32) -> bool {
        let (set, way) = self.split(slot);
        self.rows[set as usize * self.stride + way as usize / ROW].0[way as usize % ROW] == line
    }

    /// A place was used.
    #[inline]
    pub fn touch(&mut self, slot: Slot) {
        let (set, way) = self.split(slot);
        let known = &mut self.rows[(set as usize + 1) * self.stride - 1].0;
        let mut word = word(known);
        self.policy.used(&mut word, set, way);
        put_word(known, word);
    }

    /// A line was looked for in vain.
    #[inline]
    pub fn missed(&mut self, line: u32) {
        if self.policy.duels() {
            let set = self.set(line);
            self.policy.missed(set);
        }
    }

    /// A place's line becomes dirty.
    #[inline]
    pub fn dirty(&mut self, slot: Slot) {
        let (set, way) = self.split(slot);
        self.known(set)[DIRTY] |= 1 << way;
    }

    /// A place's line becomes clean; whether it was dirty.
    #[inline]
    pub fn clean(&mut self, slot: Slot) -> bool {
        let (set, way) = self.split(slot);
        let dirty = &mut self.known(set)[DIRTY];
        let was = *dirty >> way & 1 != 0;
        *dirty &= !(1 << way);
        was
    }

    /// The owner that a place was filled for.
    #[inline]
    pub fn owner(&mut self, slot: Slot) -> u8 {
        let (set, way) = self.split(slot);
        (self.known(set)[OWNERS - way as usize / 8] >> (4 * (way % 8)) & 0xf) as u8
    }

    /// Records the owner that a place was filled for, below 16.
    #[inline]
    pub fn own(&mut self, slot: Slot, owner: u8) {
        let (set, way) = self.split(slot);
        let owners = &mut self.known(set)[OWNERS - way as usize / 8];
        let shift = 4 * (way % 8);
        *owners = *owners & !(0xf << shift) | u32::from(owner) << shift;
    }

    /// Puts a line that is not there into one of the ways of a mask; where, and what made room.
    #[inline]
    pub fn insert(&mut self, line: u32, dirty: bool, mask: u32) -> (Slot, Option<Evicted>) {
        let set = self.set(line);
        let empty = if self.policy.wants_empty(mask) { self.ways_with(set, EMPTY) } else { 0 };
        let known = &mut self.rows[(set as usize + 1) * self.stride - 1].0;
        let mut word = word(known);
        let way = self.policy.replace(&mut word, set, mask, empty);
        put_word(known, word);
        let was = known[DIRTY] >> way & 1 != 0;
        known[DIRTY] = known[DIRTY] & !(1 << way) | u32::from(dirty) << way;
        let old = std::mem::replace(self.tag(set, way), line);
        ((set << self.shift) + way, (old != EMPTY).then_some(Evicted { line: old, dirty: was }))
    }

    /// Takes a place's line out; whether it was dirty.
    #[inline]
    pub fn remove(&mut self, slot: Slot) -> bool {
        let (set, way) = self.split(slot);
        let old = std::mem::replace(self.tag(set, way), EMPTY);
        debug_assert!(old != EMPTY);
        let known = &mut self.rows[(set as usize + 1) * self.stride - 1].0;
        let mut word = word(known);
        self.policy.emptied(&mut word, set, way);
        put_word(known, word);
        let was = known[DIRTY] >> way & 1 != 0;
        known[DIRTY] &= !(1 << way);
        was
    }

    // Lines that are there: the set, the way, and which.
    fn valid(&self) -> impl Iterator<Item = (usize, usize, u32)> {
        self.rows.chunks(self.stride).enumerate().flat_map(|(set, rows)| {
            let tags = rows.iter().flat_map(|row| row.0).enumerate();
            let valid =
                tags.filter(|(way, tag)| *tag != EMPTY && *way < 32 && self.all >> way & 1 != 0);
            valid.map(move |(way, line)| (set, way, line))
        })
    }

    /// Places in ways of a mask that have a line, and which.
    pub fn in_ways(&self, mask: u32) -> Vec<(Slot, u32)> {
        let there = self.valid().filter(|(_, way, _)| mask >> way & 1 != 0);
        there.map(|(set, way, line)| (((set as u32) << self.shift) + way as u32, line)).collect()
    }

    /// The owner that each present line was filled for.
    pub fn owners(&self) -> impl Iterator<Item = u8> {
        self.valid().map(|(set, way, _)| {
            (self.last_row(set)[OWNERS - way / 8] >> (4 * (way % 8)) & 0xf) as u8
        })
    }

    /// All lines, and which of them are dirty.
    pub fn lines(&self) -> impl Iterator<Item = Evicted> {
        let dirty = |set, way: usize| self.last_row(set)[DIRTY] >> way & 1 != 0;
        self.valid().map(move |(set, way, line)| Evicted { line, dirty: dirty(set, way) })
    }
}

#[inline(always)]
fn halves(Row(row): &Row) -> [&[u32; 8]; 2] {
    let (halves, _) = row.as_chunks::<8>();
    [&halves[0], &halves[1]]
}

// The places that have a number, a bit each; written so that vectors do it.
#[inline(always)]
fn equal(eight: &[u32; 8], number: u32) -> u32 {
    let mut lanes = [0_u32; 4];
    for (four, bit) in eight.as_chunks::<4>().0.iter().zip([1, 1 << 4]) {
        for (lane, known) in lanes.iter_mut().zip(four) {
            *lane |= if *known == number { bit } else { 0 };
        }
    }
    lanes[0] | lanes[1] << 1 | lanes[2] << 2 | lanes[3] << 3
}

#[inline]
fn word(known: &[u32; ROW]) -> u64 {
    u64::from(known[WORD]) | u64::from(known[WORD + 1]) << 32
}

#[inline]
fn put_word(known: &mut [u32; ROW], word: u64) {
    (known[WORD], known[WORD + 1]) = (word as u32, (word >> 32) as u32);
}

#[cfg(test)]
mod tests;
