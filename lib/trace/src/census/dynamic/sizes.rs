//! How large stores were.

use serde::Serialize;

/// Stores of more than half this size, up to this size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SizesOf {
    /// Stores of up to as many bytes, and of more than half as many.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub up_to: u64,
    /// Ordinary stores.
    pub stores: u64,
    /// Non-temporal stores.
    pub nt_stores: u64,
}

/// Stores by the power of two that they fit in.
#[derive(Debug, Default)]
pub struct Histogram([u64; 32]);

impl Histogram {
    /// Adds one of `size` bytes.
    pub fn add(&mut self, size: usize) {
        let power = size.next_power_of_two().trailing_zeros() as usize;
        self.0[power.min(self.0.len() - 1)] += 1;
    }
}

/// Stores of both kinds.
#[derive(Debug, Default)]
pub struct Sizes {
    pub ordinary: Histogram,
    pub non_temporal: Histogram,
}

impl Sizes {
    /// The sizes that occurred.
    pub fn all(&self) -> Vec<SizesOf> {
        let pairs = self.ordinary.0.iter().zip(&self.non_temporal.0).enumerate();
        let some = pairs.filter(|(_, (stores, nt_stores))| **stores + **nt_stores > 0);
        let sizes = |(power, (stores, nt_stores)): (usize, (&u64, &u64))| SizesOf {
            up_to: 1 << power,
            stores: *stores,
            nt_stores: *nt_stores,
        };
        some.map(sizes).collect()
    }
}
