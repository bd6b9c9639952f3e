//! Numbers that are the same wherever they are made.

/// The generator known as SplitMix64.
#[derive(Debug, Clone)]
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Less than `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// One time in `many`.
    pub fn once_in(&mut self, many: u64) -> bool {
        self.below(many) == 0
    }

    pub fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }

    /// From `-most` to `most`.
    pub fn around_zero(&mut self, most: i64) -> i64 {
        self.below(2 * most as u64 + 1) as i64 - most
    }
}
