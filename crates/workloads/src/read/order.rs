//! A new random order of the pieces for each round, held in registers.
//!
//! A shuffled table would be read beside the region and take its place in the cache. Here a place
//! in the order is turned into a piece by steps that are each one-to-one on numbers of so many
//! bits: a product with an odd number, a sum, and a shift folded onto itself. Where there are fewer
//! pieces than such numbers, those beyond are passed over.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

const STEPS: usize = 4;

/// An order of the pieces 0..count, each once, and where one stands in it.
pub struct Order {
    random: Xoshiro256PlusPlus,
    steps: [(u64, u64); STEPS],
    count: u64,
    bits: u32,
    next: u64,
}

impl Order {
    /// The first order of a seed; `count` is at least 1 and at most 2^62.
    pub fn new(count: u64, seed: u64) -> Self {
        assert!((1..=1 << 62).contains(&count), "{count} pieces");
        let bits = count.next_power_of_two().trailing_zeros().max(1);
        let random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut order = Self { random, steps: [(1, 0); STEPS], count, bits, next: 0 };
        order.begin();
        order
    }

    /// Begins another order.
    pub fn begin(&mut self) {
        for step in &mut self.steps {
            *step = (self.random.next_u64() | 1, self.random.next_u64());
        }
        self.next = 0;
    }

    fn piece_at(&self, place: u64) -> u64 {
        let mask = (1 << self.bits) - 1;
        let fold = self.bits.div_ceil(2);
        self.steps.iter().fold(place, |number, (factor, summand)| {
            let number = number.wrapping_mul(*factor).wrapping_add(*summand) & mask;
            number ^ (number >> fold)
        })
    }
}

impl Iterator for Order {
    type Item = u64;

    /// The next piece; `None` at the end of the order.
    #[inline]
    fn next(&mut self) -> Option<u64> {
        while self.next < 1 << self.bits {
            let piece = self.piece_at(self.next);
            self.next += 1;
            if piece < self.count {
                return Some(piece);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(order: &mut Order) -> Vec<u64> {
        order.begin();
        order.collect()
    }

    #[test]
    fn every_piece_comes_exactly_once_a_round() {
        for count in [1, 2, 3, 64, 128, 1000, 4095, 4096, 4097, 8192, 28_672] {
            let mut order = Order::new(count, count * 31);
            for _ in 0..3 {
                let mut pieces: Vec<u64> = order.by_ref().collect();
                pieces.sort_unstable();
                assert!(pieces.into_iter().eq(0..count), "{count}");
                order.begin();
            }
        }
    }

    #[test]
    fn orders_differ_from_round_to_round_and_repeat_with_their_seed() {
        let (mut one, mut same, mut other) =
            (Order::new(8192, 7), Order::new(8192, 7), Order::new(8192, 8));
        let first: Vec<u64> = one.by_ref().collect();
        assert!(same.by_ref().eq(first.iter().copied()));
        assert!(!other.by_ref().eq(first.iter().copied()));
        let second = round(&mut one);
        assert_ne!(first, second);
        assert_eq!(second, round(&mut same));
    }

    // What a prefetcher follows: neighbouring lines, and a stride that repeats.
    #[test]
    fn no_stride_repeats() {
        let mut order = Order::new(8192, 1);
        for _ in 0..20 {
            let pieces = round(&mut order);
            let strides: Vec<i64> =
                pieces.windows(2).map(|pair| pair[1] as i64 - pair[0] as i64).collect();
            let repeated = strides.windows(2).filter(|pair| pair[0] == pair[1]).count();
            let near = strides.iter().filter(|stride| stride.abs() <= 4).count();
            // By chance 1 of 8192 strides is as the one before, and 8 are as short.
            assert!(repeated < 40, "{repeated}");
            assert!(near < 80, "{near}");
        }
    }
}
