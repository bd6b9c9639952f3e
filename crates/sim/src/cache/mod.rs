//! A set-associative cache of line numbers: what is in it, what is dirty, what makes room.
//!
//! A search reads a byte a way, a hash of what is there, and a tag only where the hash is right: most searches are in
//! vain, and read one or two numbers. Addresses are as if memory were physically contiguous.

mod order;
mod policy;

use policy::Policy;

use crate::bytes::{ONES, hash, maybe_zero, zero};
use crate::machine::Replacement;

const DIRTY: u32 = 1 << 31;
const EMPTY: u32 = DIRTY - 1;

/// A place in a cache.
pub type Slot = u32;

/// All ways.
pub const ALL_WAYS: u32 = u32::MAX;

/// A cache.
pub struct Cache {
    /// Line numbers, the top bit of those that are dirty set; each set padded to a power of two.
    tags: Vec<u32>,
    /// What is looked at of a set first: a number that the policy keeps, then hashes of what is in each place, a byte each
    /// and eight to a number: never zero, or zero where nothing is.
    heads: Vec<u64>,
    policy: Policy,
    sets: u32,
    /// To find the remainder of a division by the number of sets without dividing (Lemire et al., 2019).
    reciprocal: u64,
    /// Places of a set, as a power of two.
    shift: u32,
    /// Numbers in the head of a set.
    stride: usize,
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
        let groups = 1 << shift >> 3;
        let mut head = vec![0; 1 + groups];
        head[0] = policy.word();
        Self {
            tags: vec![EMPTY; (sets << shift) as usize],
            heads: head.repeat(sets as usize),
            policy,
            sets,
            reciprocal: (u64::MAX / u64::from(sets)).wrapping_add(1),
            shift,
            stride: 1 + groups,
        }
    }

    /// Places, with those that only pad.
    pub fn slots(&self) -> usize {
        self.tags.len()
    }

    #[inline]
    fn set(&self, line: u32) -> u32 {
        let fraction = self.reciprocal.wrapping_mul(u64::from(line));
        ((u128::from(fraction) * u128::from(self.sets)) >> 64) as u32
    }

    /// Where a line is.
    #[inline]
    pub fn find(&self, line: u32) -> Option<Slot> {
        let set = self.set(line);
        let hash = u64::from(hash(line)) * ONES;
        let likely = |hashes: u64| maybe_zero(hashes ^ hash);
        let (first, start) = (set as usize * self.stride, set << self.shift);
        match &self.heads[first..first + self.stride] {
            [_, all] => match likely(*all) {
                0 => None,
                likely => self.compare(line, start, likely),
            },
            [_, low, high] => match (likely(*low), likely(*high)) {
                (0, 0) => None,
                (low, 0) => self.compare(line, start, low),
                (0, high) => self.compare(line, start + 8, high),
                (low, high) => self.compare(line, start, low).or_else(|| self.compare(line, start + 8, high)),
            },
            many => self.find_in_many(line, start, hash, &many[1..]),
        }
    }

    #[inline(never)]
    fn find_in_many(&self, line: u32, start: Slot, hash: u64, hashes: &[u64]) -> Option<Slot> {
        hashes.iter().zip((start..).step_by(8)).find_map(|(hashes, start)| match maybe_zero(hashes ^ hash) {
            0 => None,
            likely => self.compare(line, start, likely),
        })
    }

    // Which of eight places whose hash may be that of a line has it. Apart, so that a search in vain needs few registers.
    #[inline(never)]
    fn compare(&self, line: u32, start: Slot, mut likely: u64) -> Option<Slot> {
        while likely != 0 {
            let slot = start + likely.trailing_zeros() / 8;
            if self.holds(slot, line) {
                return Some(slot);
            }
            likely &= likely - 1;
        }
        None
    }

    /// Whether a place has this line.
    #[inline]
    pub fn holds(&self, slot: Slot, line: u32) -> bool {
        self.tags[slot as usize] & !DIRTY == line
    }

    /// A place was used.
    #[inline]
    pub fn touch(&mut self, slot: Slot) {
        let set = slot >> self.shift;
        let word = &mut self.heads[set as usize * self.stride];
        self.policy.used(word, set, slot - (set << self.shift));
    }

    /// A line was looked for in vain.
    #[inline]
    pub fn missed(&mut self, line: u32) {
        if self.policy.duels() {
            let set = self.set(line);
            self.policy.missed(set);
        }
    }

    /// Whether a place's line is dirty.
    #[inline]
    pub fn is_dirty(&self, slot: Slot) -> bool {
        self.tags[slot as usize] & DIRTY != 0
    }

    /// A place's line becomes dirty.
    #[inline]
    pub fn dirty(&mut self, slot: Slot) {
        self.tags[slot as usize] |= DIRTY;
    }

    /// A place's line becomes clean; whether it was dirty.
    #[inline]
    pub fn clean(&mut self, slot: Slot) -> bool {
        let was = self.is_dirty(slot);
        self.tags[slot as usize] &= !DIRTY;
        was
    }

    /// Puts a line that is not there into one of the ways of a mask; where, and what made room.
    #[inline]
    pub fn insert(&mut self, line: u32, dirty: bool, mask: u32) -> (Slot, Option<Evicted>) {
        let set = self.set(line);
        let first = set as usize * self.stride;
        let Some((word, hashes)) = self.heads[first..first + self.stride].split_first_mut() else {
            unreachable!("a head begins with the policy's number");
        };
        let way = self.policy.replace(word, set, mask, || {
            hashes.iter().rev().fold(0, |empty, hashes| empty << 8 | zero(*hashes))
        });
        put(&mut hashes[(way >> 3) as usize], way, hash(line));
        let slot = (set << self.shift) + way;
        let old = std::mem::replace(&mut self.tags[slot as usize], line | if dirty { DIRTY } else { 0 });
        let evicted = (old != EMPTY).then_some(Evicted { line: old & !DIRTY, dirty: old & DIRTY != 0 });
        (slot, evicted)
    }

    /// Takes a place's line out; whether it was dirty.
    #[inline]
    pub fn remove(&mut self, slot: Slot) -> bool {
        let old = std::mem::replace(&mut self.tags[slot as usize], EMPTY);
        debug_assert!(old != EMPTY);
        let set = slot >> self.shift;
        let way = slot - (set << self.shift);
        let head = &mut self.heads[set as usize * self.stride..];
        self.policy.emptied(&mut head[0], set, way);
        put(&mut head[1 + (way >> 3) as usize], way, 0);
        old & DIRTY != 0
    }

    /// All lines, and which of them are dirty.
    pub fn lines(&self) -> impl Iterator<Item = Evicted> {
        let valid = self.tags.iter().filter(|tag| **tag != EMPTY);
        valid.map(|tag| Evicted { line: tag & !DIRTY, dirty: tag & DIRTY != 0 })
    }
}

// A way's hash, among those of the eight that it is one of.
#[inline]
fn put(hashes: &mut u64, way: u32, hash: u8) {
    let shift = 8 * (way & 7);
    *hashes = *hashes & !(0xff << shift) | u64::from(hash) << shift;
}

#[cfg(test)]
mod tests;
