//! Random numbers that stay the same across versions of crates and compilers.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// A stream of numbers fixed by its seed.
///
/// Only the generator's raw output is taken from its crate, since that is defined by a
/// published algorithm; ranges are made here, so that no change in how a library samples them
/// changes an instance.
pub(super) struct Draw(Xoshiro256PlusPlus);

impl Draw {
    pub(super) fn new(seed: u64) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// A number in `0..bound`: the high word of a product. Its bias, below `bound` / 2^64, is
    /// of no account here.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        debug_assert!(bound > 0);
        ((u128::from(self.0.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// A number in `low..=high`.
    pub(super) fn between(&mut self, low: i64, high: i64) -> i64 {
        debug_assert!(low <= high && high.checked_sub(low).is_some());
        low + self.below((high - low) as u64 + 1) as i64
    }

    /// True once in `n` times on average; never for 0.
    pub(super) fn one_in(&mut self, n: u32) -> bool {
        n > 0 && self.below(u64::from(n)) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn covers_its_range_and_no_more() {
        let mut draw = Draw::new(1);
        let mut seen = [0; 7];
        for _ in 0..7000 {
            seen[(draw.between(-3, 3) + 3) as usize] += 1;
        }
        assert!(seen.iter().all(|count| (850..1150).contains(count)), "{seen:?}");
        assert_eq!(draw.between(5, 5), 5);
        assert!(!draw.one_in(0) && draw.one_in(1));
    }

    #[test]
    fn is_the_published_generator() {
        // Computed from the reference implementations of SplitMix64 and xoshiro256++.
        let mut draw = Draw::new(42);
        let first: Vec<u64> = (0..3).map(|_| draw.0.next_u64()).collect();
        assert_eq!(first, REFERENCE);
    }

    const REFERENCE: [u64; 3] = [0xd0764d4f4476689f, 0x519e4174576f3791, 0xfbe07cfb0c24ed8c];
}
