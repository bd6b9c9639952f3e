//! Quantiles of latencies, and how many times as long they are beside.
//!
//! # What is estimated
//!
//! All latencies of a side are put together, over all windows and trials, and the quantile is that
//! of the pool: 99 in 100 operations took at most as long as p99. The ratio is that of the two
//! sides' pooled quantiles. It is not a mean of windows' ratios: a window of 500 operations hardly
//! has a p99, and delays come in some windows and not in others, so that means of windows' p99s are
//! about something else.
//!
//! # Where the interval comes from
//!
//! Operations are not independent. Those of a window share what the device is doing, and so do
//! neighbouring windows: the mean of a window of commits was seen to vary 90 times more than
//! independent commits would, with a correlation of 0.6 from one window to the next. An interval
//! over operations is therefore far too narrow.
//!
//! So the trials are put into groups: a group is a run of neighbouring trials, both sides of each.
//! Neighbours that resemble each other fall into one group, a trial's memory layout is never in
//! two, and the groups together span the run. How far the *share* of operations that are longer
//! than the quantile varies from group to group says how exactly that share is known (as in samples
//! that come in clusters; never more exactly than of independent operations). The quantiles of the
//! two shares at the ends of that interval, Student's t with one degree of freedom less than there
//! are groups, are the bounds of one side (R. S. Woodruff, Journal of the American Statistical
//! Association 47, 1952). A share is a mean, and behaves, where a quantile may jump: of latencies
//! of which the slowest hundredth are stalls, the jackknife over groups that stood here before held
//! the true ratio in 65 to 77 % of made runs, and this holds it in 92 % or more. The bounds of the
//! ratio are made of those of both sides (G. Y. Zou and A. Donner, Statistics in Medicine 27,
//! 2008), after what moves both sides of a group together is taken off each.
//!
//! Figures of two runs are compared by what each group stands for (J. W. Tukey's pseudo-values; J.
//! Shao and C. F. J. Wu, Annals of Statistics 17, 1989, which shows that leaving out groups holds
//! for quantiles, where leaving out single values does not).
//!
//! # How many latencies it takes
//!
//! Ten beyond the quantile where they come one by one; where they come in bursts, so that shares
//! vary more than those of independent operations would, so many more that some are still longer
//! than the upper bound.
//!
//! # How exact a quantile is
//!
//! Latencies are counted in buckets, 64 to each power of two, of which each is 0.8 to 1.6 % wide;
//! before version 8 of datasets there were eight, of 6.7 to 12.5 %. Where both are put together,
//! all are counted in the wide ones. Within a bucket the quantile is interpolated, as if what it
//! holds were spread evenly; where neighbouring buckets hold about as much, little is lost. Where a
//! bucket stands out, what it holds may lie anywhere in it, and the interval is widened
//! accordingly: up to the whole bucket where both neighbours are empty. That part no number of
//! trials makes smaller.

use std::collections::BTreeMap;

use ringfence_experiment::class::Class;
use ringfence_experiment::histogram::Histogram;
use ringfence_experiment::quantity::Quantile;

use super::counts::{Counts, Frame};
use super::student::t_two_sided;
use super::{Estimate, Interval, MOST_TRIALS, NotEstimable, Observed, requirements};

/// Groups that are left out in turn, at most. With more, a group is a trial or two, and those next
/// to it resemble it: of commits whose level wanders, a 95 % interval of the median of one side
/// holds it in 79 % with 24 groups of one trial, in 90 % with 8 of three. With fewer, Student's t
/// asks for more: 2.26 standard errors with 10, 1.96 with any number.
pub const MOST_GROUPS: u32 = 10;

/// Latencies beyond the quantile that each side must hold where they come one by one, as is to be
/// expected.
pub const FEWEST_BEYOND: u64 = 10;

/// Latencies on each side that a quantile takes at the least: 1000 for p99, of which 10 are longer.
/// Where they come in bursts, it takes more.
pub fn fewest_latencies(quantile: Quantile) -> u64 {
    quantile.one_in() * FEWEST_BEYOND
}

/// The latencies of two adjacent windows, all instances together.
#[derive(Debug, Clone, PartialEq)]
pub struct LatencyPair {
    /// The start of the victim that the pair belongs to, rising over the run. Where it is never
    /// started anew, any number that rises and that neighbours share.
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
/// Fewer than [`FEWEST_TRIALS`](super::FEWEST_TRIALS); fewer latencies on a side than
/// [`fewest_latencies`]; an interval wider than [`WIDEST`](super::WIDEST); a level outside of 0..1.
pub fn quantile_ratio<'a>(
    pairs: impl IntoIterator<Item = &'a LatencyPair>,
    quantile: Quantile,
    level: f64,
) -> Estimate {
    interval(&of_pairs(pairs), quantile, level)
}

/// A quantile of windows' latencies in ns, each with its trial.
///
/// # Errors
/// As [`quantile_ratio`].
pub fn quantile_of(windows: &[(u32, Histogram)], quantile: Quantile, level: f64) -> Estimate {
    interval(&of_windows(windows, frame(windows)), quantile, level)
}

/// A quantile of some windows over that of others, of the trials that have both: for cases of one
/// experiment.
///
/// # Errors
/// As [`quantile_ratio`].
pub fn quantile_between(
    windows: &[(u32, Histogram)],
    against: &[(u32, Histogram)],
    quantile: Quantile,
    level: f64,
) -> Estimate {
    let frame = frame(windows.iter().chain(against));
    let mut other = of_windows(against, frame);
    let both = of_windows(windows, frame).into_iter().filter_map(|(trial, [own])| {
        let [other] = other.remove(&trial)?;
        Some((trial, [other, own]))
    });
    interval(&both.collect(), quantile, level)
}

/// The quantile of all windows' latencies in ns, and that of each trial: what there is where trials
/// differ too much for an interval. `None` where there are fewer than [`fewest_latencies`], or
/// where it is too long to tell.
pub fn quantile_observed(windows: &[(u32, Histogram)], quantile: Quantile) -> Option<Observed> {
    observed(&of_windows(windows, frame(windows)), quantile)
}

/// The same of a quantile beside over the same alone.
pub fn quantile_ratio_observed<'a>(
    pairs: impl IntoIterator<Item = &'a LatencyPair>,
    quantile: Quantile,
) -> Option<Observed> {
    observed(&of_pairs(pairs), quantile)
}

fn observed<const N: usize>(
    trials: &BTreeMap<u32, [Counts; N]>,
    quantile: Quantile,
) -> Option<Observed> {
    let all = pool(trials.values());
    if all.iter().any(|side| side.total < fewest_latencies(quantile)) {
        return None;
    }
    let of = |sides: &[Counts; N]| figure(sides, quantile).ok().map(|(log, _)| log);
    let logs: Vec<f64> = trials.values().filter_map(of).collect();
    Observed::new(of(&all)?, &logs)
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

/// What a ratio rests on: for each group the log figure that it stands for, with and without it
/// (the jackknife's pseudo-values, J. W. Tukey, Annals of Mathematical Statistics 29, 1958). They
/// are about as independent as the groups are, and so can be compared with those of another run.
///
/// # Errors
/// As [`quantile_ratio`].
pub fn quantile_ratio_logs<'a>(
    pairs: impl IntoIterator<Item = &'a LatencyPair>,
    quantile: Quantile,
) -> Result<Logs, NotEstimable> {
    pseudo_values(&of_pairs(pairs), quantile)
}

/// The same of one side.
///
/// # Errors
/// As [`quantile_ratio`].
pub fn quantile_logs(
    windows: &[(u32, Histogram)],
    quantile: Quantile,
) -> Result<Logs, NotEstimable> {
    pseudo_values(&of_windows(windows, frame(windows)), quantile)
}

fn of_pairs<'a>(pairs: impl IntoIterator<Item = &'a LatencyPair>) -> BTreeMap<u32, [Counts; 2]> {
    let pairs: Vec<&LatencyPair> = pairs.into_iter().collect();
    let frame = Frame::of(pairs.iter().flat_map(|pair| [&pair.baseline, &pair.arm]));
    let mut trials = BTreeMap::<u32, [Counts; 2]>::new();
    for pair in pairs {
        let [baseline, arm] =
            trials.entry(pair.trial).or_insert_with(|| [frame.empty(), frame.empty()]);
        baseline.add(&pair.baseline);
        arm.add(&pair.arm);
    }
    trials
}

fn frame<'a>(windows: impl IntoIterator<Item = &'a (u32, Histogram), IntoIter: Clone>) -> Frame {
    Frame::of(windows.into_iter().map(|(_, window)| window))
}

fn of_windows(windows: &[(u32, Histogram)], frame: Frame) -> BTreeMap<u32, [Counts; 1]> {
    let mut trials = BTreeMap::<u32, [Counts; 1]>::new();
    for (trial, window) in windows {
        trials.entry(*trial).or_insert_with(|| [frame.empty()])[0].add(window);
    }
    trials
}

fn interval<const N: usize>(
    trials: &BTreeMap<u32, [Counts; N]>,
    quantile: Quantile,
    level: f64,
) -> Estimate {
    let count = u32::try_from(trials.len()).map_err(|_| NotEstimable::OutOfRange)?;
    requirements::enough(count)?;
    if !(level > 0.0 && level < 1.0) {
        return Err(NotEstimable::InvalidLevel);
    }
    let all = pool(trials.values());
    let counted = all.iter().map(|side| side.total).min().unwrap_or(0);
    let groups = in_groups(trials);
    let t = t_two_sided(level, groups.len() as u32);
    let trials_for = |needed: f64| {
        let more = (f64::from(count) * needed / counted as f64).ceil();
        (more <= f64::from(MOST_TRIALS)).then(|| (more as u32).max(count + 1))
    };
    let fewest = fewest_latencies(quantile) as f64;
    if (counted as f64) < fewest {
        let (needed, trials) = (fewest as u64, trials_for(fewest));
        return Err(NotEstimable::TooFewLatencies { quantile, counted, needed, trials });
    }
    // Ten groups alone may happen to be alike, and those of one side.
    let bursts = (0..N).map(|place| {
        let side: Vec<&Counts> = groups.iter().map(|group| &group[place]).collect();
        let single: Vec<&Counts> = trials.values().map(|trial| &trial[place]).collect();
        bursts(&all[place], &side, quantile).max(bursts(&all[place], &single, quantile))
    });
    let bursts = bursts.fold(1.0, f64::max);
    // Of two sides, the first is the baseline.
    let (mut log, mut slack) = (0.0, 0.0);
    let mut sides = Vec::with_capacity(N);
    for (place, pooled) in all.iter().enumerate() {
        let (ns, may_be_off) = pooled.quantile(quantile)?;
        // At the end of the interval of the share, some must still be longer.
        let needed = fewest.max(1.01 * t * t * bursts * quantile.one_in() as f64);
        if (pooled.total as f64) < needed {
            let (needed, trials) = (needed.ceil() as u64, trials_for(needed));
            return Err(NotEstimable::TrialsDiffer { quantile, counted, needed, trials });
        }
        let share = quantile.share();
        let off = t * (bursts * share * (1.0 - share) / pooled.total as f64).sqrt();
        let [low, high] = [share - off, share + off].map(|share| pooled.at(share));
        let high = high.ok_or(NotEstimable::TooLongToTell { quantile })?.0;
        let (down, up) = (ns.ln() - low.map_or(0.0, |low| low.0.ln()), high.ln() - ns.ln());
        let baseline = place + 1 < N;
        let (down, up) = if baseline { (up, down) } else { (down, up) };
        log += if baseline { -ns.ln() } else { ns.ln() };
        sides.push((down, up));
        slack += may_be_off;
    }
    let both = together(trials, &all, quantile);
    let legs = |of: fn(&(f64, f64)) -> f64| {
        let squares = sides.iter().map(|side| of(side).powi(2)).sum::<f64>();
        let common = 2.0 * both * sides.iter().map(of).product::<f64>();
        (squares - if N > 1 { common } else { 0.0 }).max(0.0).sqrt()
    };
    let (below, above) = (legs(|side| side.0), legs(|side| side.1));
    let [low, value, high] = [log - below, log, log + above].map(f64::exp);
    // The spread between trials at which Student's t over them would give an interval as wide: the
    // estimate of how many more trials are needed uses it.
    let half = (below + above) / 2.0;
    let spread = half * f64::from(count).sqrt() / t_two_sided(level, count);
    if [low, value, high].iter().any(|x| !x.is_normal()) || !spread.is_finite() {
        return Err(NotEstimable::OutOfRange);
    }
    Interval { value, low, high, level, trials: count, spread, slack: 0.0 }.widened(slack)
}

// How many times more the share beyond the quantile varies from group to group than it would if
// latencies came one by one; 1 at the least.
fn bursts(pooled: &Counts, groups: &[&Counts], quantile: Quantile) -> f64 {
    let Some(more) = more_beyond(pooled, groups, quantile) else { return 1.0 };
    let count = more.len() as f64;
    let variance = more.iter().map(|own| own.powi(2)).sum::<f64>() * count / (count - 1.0);
    let share = quantile.share();
    (variance / (pooled.total as f64 * (1.0 - share) * share)).max(1.0)
}

// How far the shares beyond the quantile of both sides go together from trial to trial, as a
// correlation; none where they do not, or go against each other. Of few trials a correlation is
// hardly known, and what is taken off for one that is not there makes intervals too narrow: it is
// one standard error less than what was found (R. A. Fisher, Metron 1, 1921).
fn together<const N: usize>(
    trials: &BTreeMap<u32, [Counts; N]>,
    all: &[Counts; N],
    quantile: Quantile,
) -> f64 {
    let of_side = |place: usize| {
        let side: Vec<&Counts> = trials.values().map(|trial| &trial[place]).collect();
        more_beyond(&all[place], &side, quantile)
    };
    let (Some(one), Some(other)) = (of_side(0), of_side(N - 1)) else { return 0.0 };
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let correlation = dot(&one, &other) / (dot(&one, &one) * dot(&other, &other)).sqrt();
    let error = 1.0 / (one.len() as f64 - 3.0).max(1.0).sqrt();
    let known = (correlation.clamp(-1.0, 1.0).atanh() - error).tanh();
    if known.is_nan() { 0.0 } else { known.clamp(0.0, 0.9) }
}

// How many more are beyond the quantile of the pool in each group than its share of all, less the
// mean of that; `None` where the pool has no such quantile.
fn more_beyond(pooled: &Counts, groups: &[&Counts], quantile: Quantile) -> Option<Vec<f64>> {
    let at = pooled.at(quantile.share())?;
    let beyond = 1.0 - quantile.share();
    let more: Vec<f64> =
        groups.iter().map(|group| group.beyond(at) - beyond * group.total as f64).collect();
    let mean = more.iter().sum::<f64>() / more.len() as f64;
    Some(more.into_iter().map(|own| own - mean).collect())
}

// Runs of neighbours, which differ in length by one at most.
fn in_groups<const N: usize>(trials: &BTreeMap<u32, [Counts; N]>) -> Vec<[Counts; N]> {
    let sides: Vec<&[Counts; N]> = trials.values().collect();
    let groups = groups(sides.len());
    (0..groups)
        .map(|group| pool(sides[members(group, groups, sides.len())].iter().copied()))
        .collect()
}

fn groups(trials: usize) -> usize {
    trials.min(MOST_GROUPS as usize)
}

fn members(group: usize, groups: usize, trials: usize) -> std::ops::Range<usize> {
    group * trials / groups..(group + 1) * trials / groups
}

// The figure that each group stands for, of sides put together.
fn pseudo_values<const N: usize>(
    trials: &BTreeMap<u32, [Counts; N]>,
    quantile: Quantile,
) -> Result<Logs, NotEstimable> {
    // What is refused with an interval is refused without.
    interval(trials, quantile, 0.95)?;
    let all = pool(trials.values());
    let (log, slack) = figure(&all, quantile)?;
    let n = trials.len();
    let groups = in_groups(trials);
    let mut logs = Vec::with_capacity(groups.len());
    for (number, group) in groups.iter().enumerate() {
        let mut rest = all.clone();
        rest.iter_mut().zip(group).for_each(|(all, own)| all.remove(own));
        let (without, _) = figure(&rest, quantile)?;
        // Groups of unequal size: F. M. T. A. Busing, E. Meijer and R. van der Leeden, Statistics
        // and Computing 9, 1999.
        let h = n as f64 / members(number, groups.len(), n).len() as f64;
        logs.push(h * log - (h - 1.0) * without);
    }
    Ok(Logs { logs, slack })
}

fn figure<const N: usize>(
    sides: &[Counts; N],
    quantile: Quantile,
) -> Result<(f64, f64), NotEstimable> {
    let (mut log, mut slack) = (0.0, 0.0);
    for (place, side) in sides.iter().enumerate() {
        let (ns, may_be_off) = side.quantile(quantile)?;
        // Of two, the first is the baseline.
        log += if place + 1 < N { -ns.ln() } else { ns.ln() };
        slack += may_be_off;
    }
    Ok((log, slack))
}

// All are in one frame.
fn pool<'a, const N: usize>(mut trials: impl Iterator<Item = &'a [Counts; N]>) -> [Counts; N] {
    let mut all =
        trials.next().cloned().unwrap_or_else(|| [(); N].map(|()| Frame::of([].iter()).empty()));
    for trial in trials {
        all.iter_mut().zip(trial).for_each(|(all, own)| all.join(own));
    }
    all
}

#[cfg(test)]
mod tests {
    use ringfence_experiment::class::Class;
    use ringfence_experiment::histogram::{Grid, LONGEST};

    use super::*;

    fn counts(buckets: &[(u64, u64)]) -> Counts {
        let histogram = Histogram::from(buckets.to_vec());
        let mut counts = Frame::of([&histogram].into_iter()).empty();
        counts.add(&histogram);
        counts
    }

    fn pairs(trials: u32, baseline: &[(u64, u64)], arm: &[(u64, u64)]) -> Vec<LatencyPair> {
        let side = |buckets: &[(u64, u64)]| Histogram::from(buckets.to_vec());
        let pair = |trial| LatencyPair {
            trial,
            class: Class::Unprobed,
            baseline: side(baseline),
            arm: side(arm),
        };
        (0..trials).map(pair).collect()
    }

    // 1024 to 1152 holds 100, 1152 to 1280 as many: of 200, the 50th lies in the middle of the
    // first.
    #[test]
    fn quantiles_are_interpolated() {
        let even = counts(&[(1024, 100), (1152, 100), (1280, 100), (1408, 100)]);
        let (median, off) = even.quantile(Quantile::P50).unwrap();
        assert_eq!(median, 1280.0);
        // The bucket before is as full, and the one after.
        assert_eq!(off, 0.0);
        let (p90, _) = even.quantile(Quantile::P90).unwrap();
        assert!((p90 - (1408.0 + 128.0 * 0.6)).abs() < 1e-9, "{p90}");
    }

    // Of a dataset that a later version resumed: all are counted in the buckets that all of them
    // have.
    #[test]
    fn fine_and_coarse_buckets_are_counted_together() {
        let fine = Histogram::new(Grid::FINE, vec![(1024, 50), (1136, 50), (1152, 100)]);
        let coarse = Histogram::from(vec![(1024, 100), (1152, 100)]);
        let found = |windows: [&Histogram; 4]| {
            let windows: Vec<_> = (0..).zip(windows.map(Histogram::clone)).collect();
            quantile_of(&windows, Quantile::P50, 0.95).unwrap()
        };
        let mixed = found([&fine, &coarse, &fine, &coarse]);
        assert_eq!(mixed, found([&coarse; 4]));
        assert!((mixed.value - 1152.0).abs() < 1e-9, "{mixed:?}");
        // By themselves the fine ones say more: half of them are below 1152, in the bucket before.
        let alone = found([&fine; 4]);
        assert!((alone.value - 1152.0).abs() < 1e-9, "{alone:?}");
        assert!(alone.low > 1136.0 && mixed.low < alone.low, "{alone:?} {mixed:?}");
    }

    // All in one bucket: they may all be at either end.
    #[test]
    fn what_stands_out_may_lie_anywhere_in_its_bucket() {
        let (ns, off) = counts(&[(1024, 1000)]).quantile(Quantile::P50).unwrap();
        assert_eq!(ns, 1088.0);
        assert!((off - (1088.0f64 / 1024.0).ln()).abs() < 1e-12, "{off}");
        // A slope is none: the density before and after is on average the same.
        let (_, off) =
            counts(&[(1024, 250), (1152, 200), (1280, 150)]).quantile(Quantile::P50).unwrap();
        assert_eq!(off, 0.0);
        // Across a power of two buckets double in width: the same density is twice the count.
        let (_, off) = counts(&[(896, 50), (960, 50), (1024, 100), (1152, 100)])
            .quantile(Quantile::P50)
            .unwrap();
        assert!(off < 1e-12, "{off}");
    }

    #[test]
    fn equal_sides_of_one_bucket_are_known_no_better_than_it() {
        let same = pairs(20, &[(1024, 1000)], &[(1024, 1000)]);
        let found = quantile_ratio(&same, Quantile::P99, 0.95).unwrap();
        assert_eq!((found.value, found.trials), (1.0, 20));
        // p99 at 1150.72: 12 % above the bucket's floor, on either side.
        let off = 2.0 * (1150.72f64 / 1024.0).ln();
        assert!((found.log_half_width() - off).abs() < 1e-3, "{found:?}");
    }

    // Four trials, whose medians lie evenly spread in wide, even pools: the shares beyond the
    // median by hand.
    #[test]
    fn the_interval_of_a_share_by_hand() {
        let even: Vec<(u64, u64)> =
            (0..64).map(|bucket| (Grid::EIGHTHS.floor(64 + bucket), 1000)).collect();
        let shifted = |by: usize| -> Vec<(u64, u64)> {
            even.iter()
                .map(|(floor, count)| {
                    (Grid::EIGHTHS.floor(Grid::EIGHTHS.bucket_of(*floor) + by), *count)
                })
                .collect()
        };
        let windows: Vec<(u32, Histogram)> = [0, 0, 4, 4]
            .into_iter()
            .zip(0..)
            .map(|(by, trial)| (trial, Histogram::from(shifted(by))))
            .collect();
        let pooled = counts(Histogram::sum(windows.iter().map(|(_, window)| window)).buckets());
        // The median of the pool is where the shares beyond it of the early and the late are as far
        // from a half: two buckets of 64, which is 2000 of 64000.
        let error = (4.0f64 / 3.0 * 4.0 * 2000.0f64.powi(2)).sqrt() / 256_000.0;
        // t(3) = 3.182446.
        let [low, high] =
            [-1.0, 1.0].map(|side| pooled.at(0.5 + side * 3.182_446 * error).unwrap().0);
        let found = quantile_of(&windows, Quantile::P50, 0.95).unwrap();
        assert!(found.high > found.low * 1.5, "{found:?}");
        assert!(
            (found.low / low).ln().abs() < 1e-3 && (found.high / high).ln().abs() < 1e-3,
            "{found:?}"
        );
        let logs = quantile_logs(&windows, Quantile::P50).unwrap().logs;
        assert_eq!(logs.len(), 4);
        assert!((logs.iter().sum::<f64>() / 4.0 - found.value.ln()).abs() < 0.01);
    }

    // Those of both sides are put together as legs of a right angle.
    #[test]
    fn the_bounds_of_a_ratio_are_made_of_those_of_its_sides() {
        let buckets: Vec<(u64, u64)> =
            (0..40).map(|bucket| (Grid::EIGHTHS.floor(64 + bucket), 200)).collect();
        let twice: Vec<(u64, u64)> =
            buckets.iter().map(|(floor, count)| (floor * 2, *count)).collect();
        let side = |buckets: &[(u64, u64)]| -> Vec<(u32, Histogram)> {
            (0..8).map(|trial| (trial, Histogram::from(buckets.to_vec()))).collect()
        };
        let [alone, beside] =
            [&buckets, &twice].map(|own| quantile_of(&side(own), Quantile::P90, 0.95).unwrap());
        let ratio = quantile_ratio(&pairs(8, &buckets, &twice), Quantile::P90, 0.95).unwrap();
        let log = |x: f64| x.ln();
        let down = f64::hypot(log(beside.value / beside.low), log(alone.high / alone.value));
        let up = f64::hypot(log(beside.high / beside.value), log(alone.value / alone.low));
        assert!((ratio.value - 2.0).abs() < 1e-9, "{ratio:?}");
        assert!((log(ratio.value / ratio.low) - down).abs() < 1e-9, "{ratio:?}");
        assert!((log(ratio.high / ratio.value) - up).abs() < 1e-9, "{ratio:?}");
    }

    // Where one trial has all of those that are long, they tell as little as if there were few.
    #[test]
    fn bursts_take_more_latencies() {
        let with = |every: u32, long: u64| -> Vec<LatencyPair> {
            let side = |trial: u32| {
                let own = if trial.is_multiple_of(every) { long } else { 0 };
                Histogram::from(vec![(1024, 1000 - own), (9216, own)])
            };
            let pair = |trial| LatencyPair {
                trial,
                class: Class::Unprobed,
                baseline: Histogram::from(vec![(1024, 985), (9216, 15)]),
                arm: side(trial),
            };
            (0..10).map(pair).collect()
        };
        assert!(quantile_ratio(&with(2, 14), Quantile::P99, 0.95).is_ok());
        let refused = quantile_ratio(&with(10, 400), Quantile::P99, 0.95).unwrap_err();
        let NotEstimable::TrialsDiffer { counted, needed, trials, .. } = refused else {
            panic!("{refused}")
        };
        // 90 more than the ten that are to be expected, and ten less in each of nine others: (8100
        // + 900) * 10 / 9 in place of 99, and t(9) is 2.262157.
        let expected = 1.01 * 2.262_157f64.powi(2) * 10_000.0 / 99.0 * 100.0;
        assert_eq!((counted, needed, trials), (10_000, expected.ceil() as u64, Some(53)));
        let told = refused.told();
        assert!(
            told.starts_with("trials differ: 10000 latencies are enough")
                && !told.contains("too few"),
            "{told}"
        );
        // The figure is there all the same: long in one trial, short in nine.
        let seen = quantile_ratio_observed(&with(10, 400), Quantile::P99).unwrap();
        assert!(
            seen.low < 0.2 && seen.value > 0.9 && seen.high >= seen.value && seen.trials == 10,
            "{seen:?}"
        );
    }

    // Ten trials of ten groups, eleven of which two share one, forty in tens of four: each trial is
    // in one.
    #[test]
    fn groups_are_runs_of_whole_trials() {
        assert_eq!([groups(6), groups(10), groups(400)], [6, 10, 10]);
        assert_eq!(
            (members(9, 10, 11), members(0, 10, 11), members(3, 10, 40)),
            (9..11, 0..1, 12..16)
        );
        let whole = pairs(11, &[(1024, 3000), (1152, 3000)], &[(2048, 3000), (2304, 3000)]);
        let found = quantile_ratio(&whole, Quantile::P50, 0.95).unwrap();
        assert!((found.value - 2.0).abs() < 1e-9 && found.trials == 11, "{found:?}");
        assert_eq!(quantile_ratio_logs(&whole, Quantile::P50).unwrap().logs.len(), 10);
    }

    #[test]
    fn too_few_latencies_say_how_many_it_takes() {
        let few = pairs(12, &[(1024, 1000)], &[(2048, 50)]);
        let refused = quantile_ratio(&few, Quantile::P99, 0.95).unwrap_err();
        let expected = NotEstimable::TooFewLatencies {
            quantile: Quantile::P99,
            counted: 600,
            needed: 1000,
            trials: Some(20),
        };
        assert_eq!(refused, expected);
        let told = refused.told();
        assert!(
            told.starts_with("too few latencies: p99 takes about 1000")
                && told.contains("20 trials"),
            "{told}"
        );
        assert!(quantile_ratio(&few, Quantile::P90, 0.95).is_ok());
        // One that never came.
        let none = pairs(12, &[(1024, 1000)], &[]);
        let refused = quantile_ratio(&none, Quantile::P50, 0.95).unwrap_err();
        assert!(
            matches!(refused, NotEstimable::TooFewLatencies { counted: 0, trials: None, .. }),
            "{refused}"
        );
        let json = serde_json::to_value(expected).unwrap();
        assert_eq!(
            (&json["reason"], &json["quantile"]),
            (&"too_few_latencies".into(), &"p99".into())
        );
    }

    #[test]
    fn trials_come_first() {
        let plenty: &[(u64, u64)] = &[(1024, 100_000), (1152, 100_000)];
        let refused = |trials| quantile_ratio(&pairs(trials, plenty, plenty), Quantile::P99, 0.95);
        assert_eq!(refused(0), Err(NotEstimable::NothingMeasured));
        assert_eq!(refused(3), Err(NotEstimable::TooFewTrials { trials: 3 }));
        assert!(refused(4).is_ok());
        assert_eq!(
            quantile_ratio(&pairs(4, plenty, plenty), Quantile::P99, 1.0),
            Err(NotEstimable::InvalidLevel)
        );
    }

    #[test]
    fn only_trials_with_both_sides_are_compared() {
        let windows = |trials: std::ops::Range<u32>, floor| -> Vec<(u32, Histogram)> {
            trials
                .map(|trial| (trial, Histogram::from(vec![(floor, 3000), (floor * 9 / 8, 3000)])))
                .collect()
        };
        let found =
            quantile_between(&windows(0..8, 2048), &windows(3..9, 1024), Quantile::P50, 0.95)
                .unwrap();
        assert_eq!(found.trials, 5);
        assert!((found.value - 2.0).abs() < 1e-9);
    }

    #[test]
    fn the_last_bucket_has_no_end() {
        let open = LONGEST;
        let refused =
            quantile_ratio(&pairs(8, &[(1024, 9000)], &[(open, 9000)]), Quantile::P99, 0.95);
        assert_eq!(refused, Err(NotEstimable::TooLongToTell { quantile: Quantile::P99 }));
        assert!(refused.unwrap_err().to_string().contains("16 s"), "{}", refused.unwrap_err());
    }

    // Whatever a file says.
    #[test]
    fn no_counts_break_it() {
        for count in [1, u64::from(u32::MAX), u64::MAX] {
            for floor in [0, 1, 7, 1 << 40, u64::MAX] {
                let odd =
                    pairs(6, &[(floor, count), (floor / 3, 70_000)], &[(0, count), (100, 70_000)]);
                for quantile in Quantile::ALL {
                    if let Ok(found) = quantile_ratio(&odd, quantile, 0.95) {
                        assert!(
                            found.low > 0.0 && found.high.is_finite() && found.low <= found.value,
                            "{found:?}"
                        );
                    }
                }
            }
        }
    }
}
