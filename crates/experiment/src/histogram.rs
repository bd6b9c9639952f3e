//! Latencies of single operations as counts, in buckets that are a fixed part of their latency
//! wide.
//!
//! A task that counts latencies keeps a histogram; each window gets what was counted in it, so the
//! counts of a window add up to its units. Figures are made from these counts while measuring as
//! well as later, so that a dataset which is read again says what was said when it was measured.

use std::fmt;
use std::sync::Arc;

use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};

/// How latencies are put into buckets: one for each ns as long as that is finer, then so many per
/// power of two, the last one open, from [`LONGEST`] on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Grid {
    // The logarithm of the parts that a power of two is divided into.
    bits: u32,
}

/// Latencies of this and more are not distinguished, ns: 16.1 s.
pub const LONGEST: u64 = 15 << 30;

impl Grid {
    /// 64 per power of two: 0.8 to 1.6 % wide.
    pub const FINE: Self = Self { bits: 6 };

    /// 8 per power of two: 6.7 to 12.5 % wide. Datasets before version 8 have these, and pictures
    /// of histograms.
    pub const EIGHTHS: Self = Self { bits: 3 };

    /// The grid that divides a power of two into `parts` parts; `None` if there is no such grid.
    pub fn of_parts(parts: u32) -> Option<Self> {
        [Self::FINE, Self::EIGHTHS].into_iter().find(|grid| grid.parts() == parts)
    }

    /// How many buckets there are in a power of two.
    pub const fn parts(self) -> u32 {
        1 << self.bits
    }

    /// How many buckets there are.
    pub const fn buckets(self) -> usize {
        self.bucket_of(LONGEST) + 1
    }

    /// The bucket of a latency in ns.
    #[inline]
    pub const fn bucket_of(self, ns: u64) -> usize {
        let ns = if ns < LONGEST { ns } else { LONGEST };
        if ns >> self.bits == 0 {
            return ns as usize;
        }
        let power = ns.ilog2() - self.bits;
        (((power as u64 + 1) << self.bits) + ((ns >> power) & ((1 << self.bits) - 1))) as usize
    }

    /// The least latency of a bucket, ns.
    pub const fn floor(self, bucket: usize) -> u64 {
        let (bucket, parts) = (bucket as u64, 1 << self.bits);
        if bucket < parts { bucket } else { (parts + bucket % parts) << (bucket / parts - 1) }
    }
}

/// How many buckets of [`Grid::FINE`] there are.
pub const BUCKETS: usize = Grid::FINE.buckets();

/// The bucket of [`Grid::FINE`] that holds a latency in ns.
#[inline]
pub const fn bucket_of(ns: u64) -> usize {
    Grid::FINE.bucket_of(ns)
}

/// The least latency of a bucket of [`Grid::FINE`], ns.
pub const fn bucket_floor(bucket: usize) -> u64 {
    Grid::FINE.floor(bucket)
}

/// Counts of latencies: buckets that hold anything as (least latency in ns, count), ascending. A
/// bucket reaches up to the next boundary of its grid. Copies share their memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram {
    grid: Grid,
    buckets: Arc<[(u64, u64)]>,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { grid: Grid::FINE, buckets: Arc::new([]) }
    }
}

impl From<Vec<(u64, u64)>> for Histogram {
    /// In buckets of [`Grid::EIGHTHS`], as datasets had them before version 8.
    fn from(buckets: Vec<(u64, u64)>) -> Self {
        Self::new(Grid::EIGHTHS, buckets)
    }
}

impl Histogram {
    /// Of (least latency in ns, count), in any order; counts of the same floor are added.
    pub fn new(grid: Grid, mut buckets: Vec<(u64, u64)>) -> Self {
        buckets.sort_unstable();
        let mut all: Vec<(u64, u64)> = Vec::with_capacity(buckets.len());
        for (floor, count) in buckets.into_iter().filter(|(_, count)| *count > 0) {
            match all.last_mut() {
                Some(last) if last.0 == floor => last.1 = last.1.saturating_add(count),
                _ => all.push((floor, count)),
            }
        }
        Self { grid, buckets: all.into() }
    }

    /// From the counts of all [`BUCKETS`].
    pub fn of_buckets(counts: impl IntoIterator<Item = u64>) -> Self {
        let floors =
            counts.into_iter().enumerate().map(|(bucket, count)| (bucket_floor(bucket), count));
        Self::new(Grid::FINE, floors.filter(|(_, count)| *count > 0).collect())
    }

    /// All of these together, in the buckets of the coarsest.
    pub fn sum<'a>(all: impl IntoIterator<Item = &'a Histogram>) -> Self {
        let all: Vec<&Histogram> = all.into_iter().collect();
        let grid = Self::coarsest(all.iter().copied());
        let floors = |histogram: &'a Histogram| histogram.floors_in(grid);
        Self::new(grid, all.into_iter().flat_map(floors).collect())
    }

    /// The grid in which all of these can be counted together.
    pub fn coarsest<'a>(all: impl IntoIterator<Item = &'a Histogram>) -> Grid {
        all.into_iter().map(|histogram| histogram.grid).min().unwrap_or(Grid::FINE)
    }

    /// The same in the buckets of [`Grid::EIGHTHS`].
    pub fn in_eighths(&self) -> Self {
        Self::new(Grid::EIGHTHS, self.floors_in(Grid::EIGHTHS).collect())
    }

    // Whatever a file says, a floor is one of the grid's unless it stays as it is.
    fn floors_in(&self, grid: Grid) -> impl Iterator<Item = (u64, u64)> + '_ {
        let same = grid >= self.grid;
        let floor = move |ns: u64| if same { ns } else { grid.floor(grid.bucket_of(ns)) };
        self.buckets.iter().map(move |(ns, count)| (floor(*ns), *count))
    }

    /// What its buckets are.
    pub fn grid(&self) -> Grid {
        self.grid
    }

    /// The buckets that hold anything.
    pub fn buckets(&self) -> &[(u64, u64)] {
        &self.buckets
    }

    /// How many latencies there are.
    pub fn total(&self) -> u64 {
        self.buckets.iter().map(|(_, count)| *count).fold(0, u64::saturating_add)
    }

    /// How many are in buckets from this floor on.
    pub fn from_floor(&self, floor: u64) -> u64 {
        let above = self.buckets.iter().filter(|bucket| bucket.0 >= floor);
        above.map(|(_, count)| *count).fold(0, u64::saturating_add)
    }

    /// The floor of the bucket in which this share of them is reached, ns; `None` where there are
    /// none.
    pub fn quantile(&self, share: f64) -> Option<u64> {
        let wanted = (self.total() as f64 * share).ceil().max(1.0);
        let mut seen = 0.0;
        let reached = self.buckets.iter().find(|(_, count)| {
            seen += *count as f64;
            seen >= wanted
        });
        reached.or(self.buckets.last()).map(|(floor, _)| *floor)
    }

    /// The floor of the highest bucket, ns; `None` where there is none.
    pub fn most(&self) -> Option<u64> {
        self.buckets.last().map(|(floor, _)| *floor)
    }
}

// In eighths as an array of buckets, which is all that there was before version 8; in others an
// object.
impl Serialize for Histogram {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.grid == Grid::EIGHTHS {
            return self.buckets.serialize(serializer);
        }
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("parts", &self.grid.parts())?;
        map.serialize_entry("buckets", &self.buckets)?;
        map.end()
    }
}

impl<'de> Deserialize<'de> for Histogram {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Either)
    }
}

struct Either;

impl<'de> Visitor<'de> for Either {
    type Value = Histogram;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("buckets of latencies")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Histogram, A::Error> {
        let mut buckets = Vec::new();
        while let Some(bucket) = seq.next_element()? {
            buckets.push(bucket);
        }
        Ok(Histogram::new(Grid::EIGHTHS, buckets))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Histogram, A::Error> {
        let (mut grid, mut buckets) = (None, None);
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "parts" => {
                    let parts = map.next_value()?;
                    let unknown = || {
                        A::Error::custom(format!(
                            "no grid divides a power of two into {parts} parts"
                        ))
                    };
                    grid = Some(Grid::of_parts(parts).ok_or_else(unknown)?);
                }
                "buckets" => buckets = Some(map.next_value()?),
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        let grid = grid.ok_or_else(|| A::Error::missing_field("parts"))?;
        Ok(Histogram::new(grid, buckets.ok_or_else(|| A::Error::missing_field("buckets"))?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_ordered_and_hold_their_floor() {
        for (grid, buckets, widest) in
            [(Grid::EIGHTHS, 256, 1.0 / 8.0), (Grid::FINE, 1849, 1.0 / 64.0)]
        {
            assert_eq!(grid.buckets(), buckets);
            for bucket in 0..buckets - 1 {
                let [floor, end] = [bucket, bucket + 1].map(|bucket| grid.floor(bucket));
                assert_eq!((grid.bucket_of(floor), grid.bucket_of(end - 1)), (bucket, bucket));
                assert!(
                    end == floor + 1 || (end - floor) as f64 <= floor as f64 * widest,
                    "{floor} to {end}"
                );
            }
            assert_eq!((grid.bucket_of(u64::MAX), grid.floor(buckets - 1)), (buckets - 1, LONGEST));
        }
        assert_eq!(BUCKETS, Grid::FINE.buckets());
    }

    // So that both can be counted together, and the least latency of a miss is a boundary of both.
    #[test]
    fn every_boundary_of_the_coarse_grid_is_one_of_the_fine() {
        for bucket in 0..Grid::EIGHTHS.buckets() {
            let floor = Grid::EIGHTHS.floor(bucket);
            assert_eq!(bucket_floor(bucket_of(floor)), floor);
        }
    }

    #[test]
    fn fine_and_coarse_are_counted_together_in_the_coarse() {
        let fine =
            Histogram::new(Grid::FINE, vec![(96, 1), (97, 2), (103, 4), (104, 8), (LONGEST, 1)]);
        assert_eq!(fine.in_eighths().buckets(), [(96, 7), (104, 8), (LONGEST, 1)]);
        let coarse = Histogram::from(vec![(96, 10)]);
        let both = Histogram::sum([&fine, &coarse]);
        assert_eq!(
            (both.grid(), both.buckets()),
            (Grid::EIGHTHS, &[(96, 17), (104, 8), (LONGEST, 1)][..])
        );
        assert_eq!(Histogram::sum([&fine, &fine]).buckets()[1], (97, 4));
    }

    #[test]
    fn either_is_written_and_read() {
        let fine = Histogram::new(Grid::FINE, vec![(97, 2), (103, 4)]);
        let text = serde_json::to_string(&fine).unwrap();
        assert_eq!(text, r#"{"parts":64,"buckets":[[97,2],[103,4]]}"#);
        assert_eq!(serde_json::from_str::<Histogram>(&text).unwrap(), fine);
        assert_eq!(
            serde_json::from_str::<Histogram>("[[96,7]]").unwrap(),
            Histogram::from(vec![(96, 7)])
        );
        for damaged in
            [r#"{"parts":7,"buckets":[]}"#, r#"{"parts":64}"#, r#"{"buckets":[]}"#, "[[1]]", "3"]
        {
            assert!(serde_json::from_str::<Histogram>(damaged).is_err(), "{damaged}");
        }
    }

    #[test]
    fn counts_add_up_whatever_their_order() {
        let one = Histogram::from(vec![(64, 3), (20, 1), (64, 2), (30, 0)]);
        assert_eq!(one.buckets(), [(20, 1), (64, 5)]);
        let other =
            Histogram::of_buckets((0..BUCKETS as u64).map(|bucket| u64::from(bucket == 9) * 4));
        assert_eq!(other.grid(), Grid::FINE);
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
