//! Latencies of single operations as counts: a bucket for each ns below 8, then eight per power of two.
//!
//! A task that counts latencies keeps a histogram; each window gets what was counted in it, so the counts
//! of a window add up to its units.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// How many buckets there are: one for each ns below 8, then eight per power of two, the last one open.
pub const BUCKETS: usize = 256;

/// The bucket of a latency in ns.
#[inline]
pub fn bucket_of(ns: u64) -> usize {
    if ns < 8 {
        return ns as usize;
    }
    let power = ns.ilog2();
    (((power - 2) << 3) as usize + (ns >> (power - 3) & 7) as usize).min(BUCKETS - 1)
}

/// The least latency of a bucket, ns.
pub const fn bucket_floor(bucket: usize) -> u64 {
    if bucket < 8 { bucket as u64 } else { (8 + bucket as u64 % 8) << (bucket / 8 - 1) }
}

/// Counts of latencies: buckets that hold anything as (least latency in ns, count), ascending. A bucket
/// reaches up to the next of [`bucket_floor`]'s boundaries. Copies share their memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<(u64, u64)>")]
pub struct Histogram(Arc<[(u64, u64)]>);

impl Default for Histogram {
    fn default() -> Self {
        Self(Arc::new([]))
    }
}

impl From<Vec<(u64, u64)>> for Histogram {
    /// In any order; counts of the same floor are added.
    fn from(mut buckets: Vec<(u64, u64)>) -> Self {
        buckets.sort_unstable();
        let mut all: Vec<(u64, u64)> = Vec::with_capacity(buckets.len());
        for (floor, count) in buckets.into_iter().filter(|(_, count)| *count > 0) {
            match all.last_mut() {
                Some(last) if last.0 == floor => last.1 = last.1.saturating_add(count),
                _ => all.push((floor, count)),
            }
        }
        Self(all.into())
    }
}

impl Histogram {
    /// From the counts of all [`BUCKETS`].
    pub fn of_buckets(counts: impl IntoIterator<Item = u64>) -> Self {
        let floors = counts.into_iter().enumerate().map(|(bucket, count)| (bucket_floor(bucket), count));
        floors.collect::<Vec<_>>().into()
    }

    /// All of these together.
    pub fn sum<'a>(all: impl IntoIterator<Item = &'a Histogram>) -> Self {
        let buckets = all.into_iter().flat_map(|histogram| histogram.0.iter().copied());
        buckets.collect::<Vec<_>>().into()
    }

    /// The buckets that hold anything.
    pub fn buckets(&self) -> &[(u64, u64)] {
        &self.0
    }

    /// How many latencies there are.
    pub fn total(&self) -> u64 {
        self.0.iter().map(|(_, count)| *count).fold(0, u64::saturating_add)
    }

    /// How many are in buckets from this floor on.
    pub fn from_floor(&self, floor: u64) -> u64 {
        let above = self.0.iter().filter(|bucket| bucket.0 >= floor);
        above.map(|(_, count)| *count).fold(0, u64::saturating_add)
    }

    /// The floor of the bucket in which this share of them is reached, ns; `None` where there are none.
    pub fn quantile(&self, share: f64) -> Option<u64> {
        let wanted = (self.total() as f64 * share).ceil().max(1.0);
        let mut seen = 0.0;
        let reached = self.0.iter().find(|(_, count)| {
            seen += *count as f64;
            seen >= wanted
        });
        reached.or(self.0.last()).map(|(floor, _)| *floor)
    }

    /// The floor of the highest bucket, ns; `None` where there is none.
    pub fn most(&self) -> Option<u64> {
        self.0.last().map(|(floor, _)| *floor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_ordered_and_hold_their_floor() {
        for bucket in 0..BUCKETS - 1 {
            assert_eq!(bucket_of(bucket_floor(bucket)), bucket);
            assert_eq!(bucket_of(bucket_floor(bucket + 1) - 1), bucket);
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn counts_add_up_whatever_their_order() {
        let one = Histogram::from(vec![(64, 3), (20, 1), (64, 2), (30, 0)]);
        assert_eq!(one.buckets(), [(20, 1), (64, 5)]);
        let other = Histogram::of_buckets((0..BUCKETS as u64).map(|bucket| u64::from(bucket == 9) * 4));
        assert_eq!(other.buckets(), [(9, 4)]);
        let sum = Histogram::sum([&one, &other, &Histogram::default()]);
        assert_eq!(sum.buckets(), [(9, 4), (20, 1), (64, 5)]);
        assert_eq!((sum.total(), sum.from_floor(20), sum.from_floor(21)), (10, 6, 5));
        assert_eq!(sum.most(), Some(64));
        let json = serde_json::to_string(&sum).unwrap();
        assert_eq!(json, "[[9,4],[20,1],[64,5]]");
        assert_eq!(serde_json::from_str::<Histogram>(&json).unwrap(), sum);
    }

    #[test]
    fn quantiles_are_floors_of_buckets() {
        let all = Histogram::from(vec![(20, 90), (100, 9), (5000, 1)]);
        for (share, floor) in
            [(0.0, 20), (0.5, 20), (0.9, 20), (0.91, 100), (0.99, 100), (0.991, 5000), (1.0, 5000)]
        {
            assert_eq!(all.quantile(share), Some(floor), "{share}");
        }
        assert_eq!(Histogram::default().quantile(0.5), None);
        assert_eq!(Histogram::default().most(), None);
    }
}
