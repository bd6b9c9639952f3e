//! Simulated time.

use std::fmt;
use std::ops::{Add, Sub};

/// Simulated time, or a span of it, in whole picoseconds: no rounding adds up, and equal seeds give
/// equal times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Ps(pub u64);

impl Ps {
    /// Where a run starts.
    pub const ZERO: Ps = Ps(0);

    /// Whole nanoseconds.
    pub const fn from_ns(ns: u64) -> Self {
        Ps(ns * 1_000)
    }

    /// In nanoseconds.
    pub fn as_ns(self) -> f64 {
        self.0 as f64 / 1e3
    }
}

impl Add for Ps {
    type Output = Ps;

    fn add(self, other: Ps) -> Ps {
        Ps(self.0 + other.0)
    }
}

impl Sub for Ps {
    type Output = Ps;

    fn sub(self, other: Ps) -> Ps {
        Ps(self.0 - other.0)
    }
}

impl fmt::Display for Ps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ns", self.as_ns())
    }
}
