//! A set-associative cache of line numbers: what is in it, what is dirty, what makes room.
//!
//! Tags and recency are apart, so that a search reads the tags of one set and nothing else. Addresses are as if memory
//! were physically contiguous.

mod policy;

use policy::Policy;

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
    policy: Policy,
    sets: u32,
    /// To find the remainder of a division by the number of sets without dividing (Lemire et al., 2019).
    reciprocal: u64,
    ways: u32,
    /// Places of a set, as a power of two.
    shift: u32,
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
        Self {
            tags: vec![EMPTY; (sets << shift) as usize],
            policy: Policy::new(replacement, sets, ways, shift),
            sets,
            reciprocal: (u64::MAX / u64::from(sets)).wrapping_add(1),
            ways,
            shift,
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
        let start = (self.set(line) << self.shift) as usize;
        let tags = &self.tags[start..start + (1 << self.shift)];
        for (group, tags) in tags.as_chunks::<8>().0.iter().enumerate() {
            // A byte a way: compiled to vector instructions.
            let mut equal = [0_u8; 8];
            for (equal, tag) in equal.iter_mut().zip(tags) {
                *equal = u8::from(tag & !DIRTY == line);
            }
            let equal = u64::from_le_bytes(equal);
            if equal != 0 {
                return Some(start as u32 + group as u32 * 8 + equal.trailing_zeros() / 8);
            }
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
        self.policy.used(set, slot - (set << self.shift));
    }

    /// A line was looked for in vain.
    #[inline]
    pub fn missed(&mut self, line: u32) {
        let set = self.set(line);
        self.policy.missed(set);
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
        let start = set << self.shift;
        let tags = &self.tags[start as usize..(start + self.ways) as usize];
        let way = self.policy.victim(set, mask, |way| tags[way as usize] == EMPTY);
        let slot = start + way;
        let old = std::mem::replace(&mut self.tags[slot as usize], line | if dirty { DIRTY } else { 0 });
        self.policy.filled(set, way);
        let evicted = (old != EMPTY).then_some(Evicted { line: old & !DIRTY, dirty: old & DIRTY != 0 });
        (slot, evicted)
    }

    /// Takes a place's line out; whether it was dirty.
    #[inline]
    pub fn remove(&mut self, slot: Slot) -> bool {
        let old = std::mem::replace(&mut self.tags[slot as usize], EMPTY);
        debug_assert!(old != EMPTY);
        let set = slot >> self.shift;
        self.policy.emptied(set, slot - (set << self.shift));
        old & DIRTY != 0
    }

    /// All lines, and which of them are dirty.
    pub fn lines(&self) -> impl Iterator<Item = Evicted> {
        let valid = self.tags.iter().filter(|tag| **tag != EMPTY);
        valid.map(|tag| Evicted { line: tag & !DIRTY, dirty: tag & DIRTY != 0 })
    }
}

#[cfg(test)]
mod tests;
