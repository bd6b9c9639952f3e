//! Latencies counted in buckets, and what a share of them is at most.

use ringfence_experiment::histogram::{Grid, Histogram};
use ringfence_experiment::quantity::Quantile;

use super::NotEstimable;

/// The buckets in which some histograms are counted together: from the first that holds anything to
/// the last, in the grid of the coarsest.
#[derive(Debug, Clone, Copy)]
pub struct Frame {
    grid: Grid,
    first: usize,
    count: usize,
}

impl Frame {
    /// That of all of these.
    pub fn of<'a>(all: impl Iterator<Item = &'a Histogram> + Clone) -> Self {
        let grid = Histogram::coarsest(all.clone());
        let ends = all.filter_map(|one| Some((one.buckets().first()?.0, one.buckets().last()?.0)));
        let ends = ends.reduce(|(low, high), (first, last)| (low.min(first), high.max(last)));
        let (first, last) =
            ends.map_or((0, 0), |(low, high)| (grid.bucket_of(low), grid.bucket_of(high)));
        Self { grid, first, count: last + 1 - first }
    }

    /// Nothing counted yet.
    pub fn empty(self) -> Counts {
        Counts { frame: self, buckets: vec![0; self.count].into(), total: 0 }
    }

    // Both ends of a bucket, ns; the last of the grid has none.
    fn ends(self, place: usize) -> [f64; 2] {
        let bucket = self.first + place;
        [bucket, bucket + 1].map(|bucket| self.grid.floor(bucket) as f64)
    }

    fn is_open(self, place: usize) -> bool {
        self.first + place + 1 >= self.grid.buckets()
    }
}

/// The counts of all buckets of a frame, so that what is left out can be taken away.
#[derive(Debug, Clone)]
pub struct Counts {
    frame: Frame,
    buckets: Box<[u64]>,
    pub total: u64,
}

impl Counts {
    /// Adds a histogram that the frame is of.
    pub fn add(&mut self, histogram: &Histogram) {
        let Frame { grid, first, .. } = self.frame;
        for (floor, count) in histogram.buckets() {
            // A damaged file can say anything.
            let fits = (*count).min(u64::from(u32::MAX));
            self.buckets[grid.bucket_of(*floor) - first] += fits;
            self.total += fits;
        }
    }

    pub fn join(&mut self, other: &Self) {
        self.buckets.iter_mut().zip(&other.buckets).for_each(|(own, other)| *own += other);
        self.total += other.total;
    }

    pub fn remove(&mut self, other: &Self) {
        self.buckets.iter_mut().zip(&other.buckets).for_each(|(own, other)| *own -= other);
        self.total -= other.total;
    }

    /// In ns, and how far it may be off on the log scale.
    ///
    /// # Errors
    /// Where nothing was counted, and where it lies in the last bucket, which has no end.
    pub fn quantile(&self, quantile: Quantile) -> Result<(f64, f64), NotEstimable> {
        let (ns, bucket) = self.at(quantile.share()).ok_or(match self.total {
            0 => NotEstimable::NothingMeasured,
            _ => NotEstimable::TooLongToTell { quantile },
        })?;
        let [low, high] = self.frame.ends(bucket);
        let stands_out = self.stands_out(bucket);
        let farthest = (high / ns).max(ns / low.max(1.0)).ln().max(0.0);
        Ok((ns, stands_out * stands_out * farthest))
    }

    /// What this share of them is at most, in ns, and the bucket that this lies in, as if what the
    /// bucket holds were spread evenly in it. `None` where there is nothing, and for the last
    /// bucket, which has no end.
    pub fn at(&self, share: f64) -> Option<(f64, usize)> {
        let wanted = share * self.total as f64;
        let mut before = 0u64;
        let reached = self.buckets.iter().position(|count| {
            let here = *count > 0 && (before + count) as f64 >= wanted;
            before += if here { 0 } else { *count };
            here
        });
        let bucket = reached.filter(|bucket| !self.frame.is_open(*bucket))?;
        let [low, high] = self.frame.ends(bucket);
        let along = (wanted - before as f64) / self.buckets[bucket] as f64;
        // Below 1 ns there is nothing to tell apart.
        Some(((low + (high - low) * along.clamp(0.0, 1.0)).max(1.0), bucket))
    }

    /// How many are longer than what lies in a bucket at this height, spread as by [`Counts::at`].
    pub fn beyond(&self, (ns, bucket): (f64, usize)) -> f64 {
        let [low, high] = self.frame.ends(bucket);
        let along = ((ns - low) / (high - low)).clamp(0.0, 1.0);
        let above: u64 = self.buckets[bucket + 1..].iter().sum();
        above as f64 + self.buckets[bucket] as f64 * (1.0 - along)
    }

    // How much denser a bucket is than its neighbours on average: 0 for not at all, 1 where they
    // are empty. An even slope is not: interpolation bears it.
    fn stands_out(&self, bucket: usize) -> f64 {
        let density = |place: usize| {
            let [low, high] = self.frame.ends(place);
            self.buckets[place] as f64 / (high - low)
        };
        // Beyond the frame there is nothing.
        let above = Some(bucket + 1)
            .filter(|above| *above < self.buckets.len() && !self.frame.is_open(*above));
        let beside: f64 =
            [bucket.checked_sub(1), above].into_iter().flatten().map(density).sum::<f64>() / 2.0;
        (1.0 - beside / density(bucket)).clamp(0.0, 1.0)
    }
}

/// What this share of the latencies is at most, ns, interpolated in its bucket. `None` where there
/// are none, and beyond the longest that is told apart.
pub fn interpolated(histogram: &Histogram, share: f64) -> Option<f64> {
    let mut counts = Frame::of([histogram].into_iter()).empty();
    counts.add(histogram);
    counts.at(share).map(|(ns, _)| ns)
}
