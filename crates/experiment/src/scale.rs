//! What a timed read takes on a machine when it hits, when it misses, and when nothing is read at
//! all.

use serde::{Deserialize, Serialize};

use crate::histogram::Grid;

/// The latencies that distinguish hits from misses, measured before anything else runs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Scale {
    /// What reading the clock twice takes with nothing in between, ns, the median: every latency
    /// holds it.
    pub clock_ns: f64,
    /// A read of a line that has just been read, the clock included, ns: the median.
    pub hit_ns: f64,
    /// The same: 99 of 100 take at most this.
    pub hit_high_ns: f64,
    /// A read of a line that has been flushed to memory (`clflush`), the clock included, ns: the
    /// median.
    pub miss_ns: f64,
    /// The same: 99 of 100 take at least this.
    pub miss_low_ns: f64,
}

impl Scale {
    /// The least latency that counts as a miss, ns, a boundary of [`Grid::EIGHTHS`]: what 99 of 100
    /// reads of flushed lines take at least. `None` where reads of cached lines take as long, so
    /// that latency tells nothing.
    pub fn threshold_ns(&self) -> Option<u64> {
        // Of every grid, so that older datasets are held against the same.
        let grid = Grid::EIGHTHS;
        let (hit, miss) =
            (grid.bucket_of(self.hit_high_ns as u64), grid.bucket_of(self.miss_low_ns as u64));
        (miss > hit + 1).then(|| grid.floor(miss))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_told_apart_has_no_threshold() {
        let scale = |hit_high_ns: f64, miss_low_ns: f64| Scale {
            clock_ns: 20.0,
            hit_ns: 22.0,
            hit_high_ns,
            miss_ns: miss_low_ns * 1.2,
            miss_low_ns,
        };
        assert_eq!(scale(30.0, 90.0).threshold_ns(), Some(88));
        assert_eq!(scale(30.0, 30.0).threshold_ns(), None);
        assert_eq!(scale(30.0, 33.0).threshold_ns(), None, "neighbouring buckets");
        assert_eq!(scale(90.0, 30.0).threshold_ns(), None);
        assert_eq!(scale(f64::NAN, -1.0).threshold_ns(), None);
    }
}
