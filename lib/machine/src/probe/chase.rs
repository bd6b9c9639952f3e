//! The order in which lines are loaded: a random cycle through all of them.

/// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): enough to shuffle, no dependency.
pub(super) struct Random(pub u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }
}

/// A permutation of `0..n` that is one cycle (Sattolo 1986): following it visits everything
/// before it returns. `next[i]` is the successor of `i`.
pub(super) fn single_cycle(n: usize, random: &mut Random) -> Vec<u32> {
    let mut next: Vec<u32> = (0..n as u32).collect();
    for i in (1..n).rev() {
        next.swap(i, random.below(i));
    }
    next
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_cycle_through_everything() {
        for n in [1, 2, 3, 64, 1000] {
            let next = single_cycle(n, &mut Random(n as u64));
            let mut at = 0;
            for step in 1..=n {
                at = next[at] as usize;
                assert_eq!(at == 0, step == n, "{n}: back after {step}");
            }
        }
    }
}
