//! Quantiles of latencies, and how many times as long they are beside.
//!
//! # What is estimated
//!
//! All latencies of a side are put together, over all windows and trials, and the quantile is that of the pool: 99 in
//! 100 operations took at most as long as p99. The ratio is that of the two sides' pooled quantiles. It is not a mean of
//! windows' ratios: a window of 500 operations hardly has a p99, and delays come in some windows and not in others, so
//! that means of windows' p99s are about something else.
//!
//! # Where the interval comes from
//!
//! Operations are not independent. Those of a window share what the device is doing, and so do neighbouring windows: the mean
//! of a window of commits was seen to vary 90 times more than independent commits would, with a correlation of 0.6 from
//! one window to the next. An interval over operations is therefore far too narrow.
//!
//! So the interval is a jackknife that leaves out groups (J. Shao and C. F. J. Wu, Annals of Statistics 17, 1989, who show
//! that it holds for quantiles, where leaving out single values does not; H. R. Künsch, same volume, for what is
//! correlated). A group is a run of neighbouring trials, both sides of each: neighbours that resemble each other fall
//! into one group, a trial's memory layout is never in two, and the groups together span the run. The log figure is found again
//! without each group, and Student's t with one degree of freedom less than there are groups gives the bounds.
//!
//! # How exact a quantile is
//!
//! Latencies are counted in buckets, eight to each power of two, of which each is 6.7 to 12.5 % wide. Within a bucket the
//! quantile is interpolated, as if what it holds were spread evenly; where neighbouring buckets hold about as much, little
//! is lost. Where a bucket stands out, what it holds may lie anywhere in it, and the interval is widened accordingly: up to
//! the whole bucket where both neighbours are empty. That part no number of trials makes smaller.

use std::collections::BTreeMap;

use ringfence_experiment::class::Class;
use ringfence_experiment::histogram::{BUCKETS, Histogram, bucket_floor, bucket_of};
use ringfence_experiment::quantity::Quantile;

use super::student::t_two_sided;
use super::{Estimate, Interval, MOST_TRIALS, NotEstimable, told};

/// Groups that are left out in turn, at most. With more, a group is a trial or two, and those next to it resemble it: of
/// commits whose level wanders, a 95 % interval of the median of one side holds it in 79 % with 24 groups of one trial,
/// in 90 % with 8 of three. With fewer, Student's t asks for more: 2.26 standard errors with 10, 1.96 with any number.
pub const MOST_GROUPS: u32 = 10;

/// Latencies beyond the quantile that a group must hold, as is to be expected.
///
/// Leaving out fewer would move the quantile by a step or two from one latency to the next, which says little of how far it
/// could be.
pub const BEYOND_PER_GROUP: u64 = 10;

/// Latencies beyond the quantile that each side must hold, as is to be expected.
pub const BEYOND_IN_ALL: u64 = 60;

/// Latencies on each side that a quantile takes: 6000 for p99, of which 60 are longer.
pub fn fewest_latencies(quantile: Quantile) -> u64 {
    quantile.one_in() * BEYOND_IN_ALL
}

/// The latencies of two adjacent windows, all instances together.
#[derive(Debug, Clone, PartialEq)]
pub struct LatencyPair {
    /// The start of the victim that the pair belongs to, rising over the run. Where it is never started anew, any
    /// number that rises and that neighbours share.
    pub trial: u32,
    /// How close the CPUs in use were.
    pub class: Class,
    /// Those of the case's baseline.
    pub baseline: Histogram,
    /// Those of the case itself.
    pub arm: Histogram,
}

/// A quantile beside over the same alone, with its interval at the confidence `level`.
///
/// # Errors
/// Fewer than [`FEWEST_TRIALS`]; fewer latencies on a side than [`fewest_latencies`]; an interval wider than
/// [`WIDEST`](super::WIDEST); a level outside of 0..1.
pub fn quantile_ratio<'a>(
    pairs: impl IntoIterator<Item = &'a LatencyPair>,
    quantile: Quantile,
    level: f64,
) -> Estimate {
    jackknife(&of_pairs(pairs), quantile)?.interval(level)
}

/// A quantile of windows' latencies in ns, each with its trial.
///
/// # Errors
/// As [`quantile_ratio`].
pub fn quantile_of(windows: &[(u32, Histogram)], quantile: Quantile, level: f64) -> Estimate {
    jackknife(&of_windows(windows), quantile)?.interval(level)
}

/// A quantile of some windows over that of others, of the trials that have both: for cases of one experiment.
///
/// # Errors
/// As [`quantile_ratio`].
pub fn quantile_between(
    windows: &[(u32, Histogram)],
    against: &[(u32, Histogram)],
    quantile: Quantile,
    level: f64,
) -> Estimate {
    let mut other = of_windows(against);
    let both = of_windows(windows).into_iter().filter_map(|(trial, [own])| {
        let [other] = other.remove(&trial)?;
        Some((trial, [other, own]))
    });
    jackknife(&both.collect(), quantile)?.interval(level)
}

/// What a figure rests on, so that it can be compared with that of another run.
#[derive(Debug, Clone, PartialEq)]
pub struct Logs {
    /// The log figure of each trial; of a quantile, that which each group of trials stands for.
    pub logs: Vec<f64>,
    /// What [`Interval::slack`] is of one.
    pub slack: f64,
}

impl From<Vec<f64>> for Logs {
    fn from(logs: Vec<f64>) -> Self {
        Self { logs, slack: 0.0 }
    }
}

/// What a ratio rests on: for each group the log figure that it stands for, with and without it (the jackknife's pseudo-values,
/// J. W. Tukey, Annals of Mathematical Statistics 29, 1958). They are about as independent as the groups are, and so can
/// be compared with those of another run.
///
/// # Errors
/// As [`quantile_ratio`].
pub fn quantile_ratio_logs<'a>(
    pairs: impl IntoIterator<Item = &'a LatencyPair>,
    quantile: Quantile,
) -> Result<Logs, NotEstimable> {
    jackknife(&of_pairs(pairs), quantile).map(Jackknife::logs)
}

/// The same of one side.
///
/// # Errors
/// As [`quantile_ratio`].
pub fn quantile_logs(windows: &[(u32, Histogram)], quantile: Quantile) -> Result<Logs, NotEstimable> {
    jackknife(&of_windows(windows), quantile).map(Jackknife::logs)
}

fn of_pairs<'a>(pairs: impl IntoIterator<Item = &'a LatencyPair>) -> BTreeMap<u32, [Counts; 2]> {
    let mut trials = BTreeMap::<u32, [Counts; 2]>::new();
    for pair in pairs {
        let [baseline, arm] = trials.entry(pair.trial).or_default();
        baseline.add(&pair.baseline);
        arm.add(&pair.arm);
    }
    trials
}

fn of_windows(windows: &[(u32, Histogram)]) -> BTreeMap<u32, [Counts; 1]> {
    let mut trials = BTreeMap::<u32, [Counts; 1]>::new();
    for (trial, window) in windows {
        trials.entry(*trial).or_default()[0].add(window);
    }
    trials
}

// A figure of sides put together, and what it is without each group.
struct Jackknife {
    log: f64,
    // On the log scale: how far the figure may be off because of the buckets.
    slack: f64,
    // A figure for each group.
    pseudo: Vec<f64>,
    standard_error: f64,
    trials: u32,
}

fn jackknife<const N: usize>(
    trials: &BTreeMap<u32, [Counts; N]>,
    quantile: Quantile,
) -> Result<Jackknife, NotEstimable> {
    let count = u32::try_from(trials.len()).map_err(|_| NotEstimable::OutOfRange)?;
    told::enough(count)?;
    let all = pool(trials.values());
    let counted = all.iter().map(|side| side.total).min().unwrap_or(0);
    let groups = groups(count, counted / quantile.one_in());
    let needed = fewest_latencies(quantile);
    if counted < needed {
        let trials = (u128::from(count) * u128::from(needed)).checked_div(u128::from(counted));
        let trials = trials.and_then(|trials| u32::try_from(trials + 1).ok()).filter(|t| *t <= MOST_TRIALS);
        let trials = trials.map(|trials| trials.max(count + 1));
        return Err(NotEstimable::TooFewLatencies { quantile, counted, needed, trials });
    }
    let figure = |sides: &[Counts; N]| figure(sides, quantile);
    let (log, slack) = figure(&all)?;
    let sides: Vec<&[Counts; N]> = trials.values().collect();
    let (n, groups) = (sides.len(), groups as usize);
    let (mut pseudo, mut squares) = (Vec::with_capacity(groups), Vec::with_capacity(groups));
    for group in 0..groups {
        // Runs of neighbours, which differ in length by one at most.
        let members = &sides[group * n / groups..(group + 1) * n / groups];
        let mut rest = all.clone();
        members.iter().for_each(|trial| rest.iter_mut().zip(*trial).for_each(|(all, own)| all.remove(own)));
        let (without, _) = figure(&rest)?;
        // Groups of unequal size: F. M. T. A. Busing, E. Meijer and R. van der Leeden, Statistics and Computing 9, 1999.
        let h = n as f64 / members.len() as f64;
        pseudo.push(h * log - (h - 1.0) * without);
        squares.push((h, without));
    }
    let center =
        groups as f64 * log - squares.iter().map(|(h, without)| (1.0 - 1.0 / h) * without).sum::<f64>();
    let variance =
        pseudo.iter().zip(&squares).map(|(own, (h, _))| (own - center).powi(2) / (h - 1.0)).sum::<f64>();
    let standard_error = (variance / groups as f64).sqrt();
    Ok(Jackknife { log, slack, pseudo, standard_error, trials: count })
}

// As many as hold enough beyond the quantile, of so many in all.
fn groups(trials: u32, beyond: u64) -> u32 {
    let hold_enough = u32::try_from(beyond / BEYOND_PER_GROUP).unwrap_or(u32::MAX);
    trials.min(MOST_GROUPS).min(hold_enough)
}

impl Jackknife {
    fn logs(self) -> Logs {
        Logs { logs: self.pseudo, slack: self.slack }
    }

    fn interval(&self, level: f64) -> Estimate {
        if !(level > 0.0 && level < 1.0) {
            return Err(NotEstimable::InvalidLevel);
        }
        let half = t_two_sided(level, self.pseudo.len() as u32) * self.standard_error;
        let bounds = [self.log - half, self.log, self.log + half].map(f64::exp);
        // What trials would have to vary by for Student's t over them to be as wide: whoever asks how many more it takes
        // goes by this.
        let spread = half * f64::from(self.trials).sqrt() / t_two_sided(level, self.trials);
        if bounds.iter().any(|x| !x.is_normal()) || !spread.is_finite() {
            return Err(NotEstimable::OutOfRange);
        }
        let [low, value, high] = bounds;
        Interval { value, low, high, level, trials: self.trials, spread, slack: 0.0 }.widened(self.slack)
    }
}

fn figure<const N: usize>(sides: &[Counts; N], quantile: Quantile) -> Result<(f64, f64), NotEstimable> {
    let (mut log, mut slack) = (0.0, 0.0);
    for (place, side) in sides.iter().enumerate() {
        let (ns, may_be_off) = side.quantile(quantile)?;
        // Of two, the first is the baseline.
        log += if place + 1 < N { -ns.ln() } else { ns.ln() };
        slack += may_be_off;
    }
    Ok((log, slack))
}

fn pool<'a, const N: usize>(trials: impl Iterator<Item = &'a [Counts; N]>) -> [Counts; N] {
    let mut all: [Counts; N] = std::array::from_fn(|_| Counts::default());
    for trial in trials {
        all.iter_mut().zip(trial).for_each(|(all, own)| all.join(own));
    }
    all
}

// All buckets, so that what is left out can be taken away.
#[derive(Debug, Clone)]
struct Counts {
    buckets: Box<[u64]>,
    total: u64,
}

impl Default for Counts {
    fn default() -> Self {
        Self { buckets: vec![0; BUCKETS].into(), total: 0 }
    }
}

impl Counts {
    fn add(&mut self, histogram: &Histogram) {
        for (floor, count) in histogram.buckets() {
            // A damaged file can say anything.
            let fits = (*count).min(u64::from(u32::MAX));
            self.buckets[bucket_of(*floor)] += fits;
            self.total += fits;
        }
    }

    fn join(&mut self, other: &Self) {
        self.buckets.iter_mut().zip(&other.buckets).for_each(|(own, other)| *own += other);
        self.total += other.total;
    }

    fn remove(&mut self, other: &Self) {
        self.buckets.iter_mut().zip(&other.buckets).for_each(|(own, other)| *own -= other);
        self.total -= other.total;
    }

    // In ns, and how far it may be off on the log scale.
    fn quantile(&self, quantile: Quantile) -> Result<(f64, f64), NotEstimable> {
        let wanted = quantile.share() * self.total as f64;
        let mut before = 0u64;
        let reached = self.buckets.iter().position(|count| {
            let here = *count > 0 && (before + count) as f64 >= wanted;
            before += if here { 0 } else { *count };
            here
        });
        let bucket = reached.ok_or(NotEstimable::NothingMeasured)?;
        if bucket + 1 == BUCKETS {
            return Err(NotEstimable::TooLongToTell { quantile });
        }
        let [low, high] = [bucket, bucket + 1].map(|bucket| bucket_floor(bucket) as f64);
        let along = (wanted - before as f64) / self.buckets[bucket] as f64;
        let ns = low + (high - low) * along.clamp(0.0, 1.0);
        let stands_out = self.stands_out(bucket);
        // Below 1 ns there is nothing to tell apart.
        let ns = ns.max(1.0);
        let farthest = (high / ns).max(ns / low.max(1.0)).ln().max(0.0);
        Ok((ns, stands_out * stands_out * farthest))
    }

    // How much denser a bucket is than its neighbours on average: 0 for not at all, 1 where they are empty. An even slope
    // is not: interpolation bears it.
    fn stands_out(&self, bucket: usize) -> f64 {
        let density = |bucket: usize| {
            let width = bucket_floor(bucket + 1) - bucket_floor(bucket);
            self.buckets[bucket] as f64 / width as f64
        };
        let beside = [bucket.checked_sub(1), Some(bucket + 1).filter(|above| above + 1 < BUCKETS)];
        let beside: f64 = beside.into_iter().map(|beside| beside.map_or(0.0, density)).sum::<f64>() / 2.0;
        (1.0 - beside / density(bucket)).clamp(0.0, 1.0)
    }
}

#[cfg(test)]
#[path = "../../tests/inside/pooled.rs"]
mod tests;
