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
//! So the trials are put into groups: a group is a run of neighbouring trials, both sides of each. Neighbours that resemble
//! each other fall into one group, a trial's memory layout is never in two, and the groups together span the run. How far the
//! *share* of operations that are longer than the quantile varies from group to group says how exactly that share is
//! known (as in samples that come in clusters; never more exactly than of independent operations). The quantiles of the two
//! shares at the ends of that interval, Student's t with one degree of freedom less than there are groups, are the bounds of
//! one side (R. S. Woodruff, Journal of the American Statistical Association 47, 1952). A share is a mean, and behaves, where
//! a quantile may jump: of latencies of which the slowest hundredth are stalls, the jackknife over groups that stood here before
//! held the true ratio in 65 to 77 % of made runs, and this holds it in 92 % or more. The bounds of the ratio are made of those of both
//! sides (G. Y. Zou and A. Donner, Statistics in Medicine 27, 2008), after what moves both sides
//! of a group together is taken off each.
//!
//! Figures of two runs are compared by what each group stands for (J. W. Tukey's pseudo-values; J. Shao and C. F. J. Wu, Annals of
//! Statistics 17, 1989, who show that leaving out groups holds for quantiles, where leaving out single values does not).
//!
//! # How many latencies it takes
//!
//! Ten beyond the quantile where they come one by one; where they come in bursts, so that shares vary more than those of
//! independent operations would, so many more that some are still longer than the upper bound.
//!
//! # How exact a quantile is
//!
//! Latencies are counted in buckets, 64 to each power of two, of which each is 0.8 to 1.6 % wide; before version 8 of datasets
//! there were eight, of 6.7 to 12.5 %. Where both are put together, all are counted in the wide ones. Within a bucket the quantile is interpolated, as if what it holds were spread evenly; where neighbouring buckets hold about as much, little
//! is lost. Where a bucket stands out, what it holds may lie anywhere in it, and the interval is widened accordingly: up to
//! the whole bucket where both neighbours are empty. That part no number of trials makes smaller.

use std::collections::BTreeMap;

use ringfence_experiment::class::Class;
use ringfence_experiment::histogram::Histogram;
use ringfence_experiment::quantity::Quantile;

use super::counts::{Counts, Frame};
use super::student::t_two_sided;
use super::{Estimate, Interval, MOST_TRIALS, NotEstimable, Observed, told};

/// Groups that are left out in turn, at most. With more, a group is a trial or two, and those next to it resemble it: of
/// commits whose level wanders, a 95 % interval of the median of one side holds it in 79 % with 24 groups of one trial,
/// in 90 % with 8 of three. With fewer, Student's t asks for more: 2.26 standard errors with 10, 1.96 with any number.
pub const MOST_GROUPS: u32 = 10;

/// Latencies beyond the quantile that each side must hold where they come one by one, as is to be expected.
pub const FEWEST_BEYOND: u64 = 10;

/// Latencies on each side that a quantile takes at the least: 1000 for p99, of which 10 are longer. Where they come in bursts,
/// it takes more.
pub fn fewest_latencies(quantile: Quantile) -> u64 {
    quantile.one_in() * FEWEST_BEYOND
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
    interval(&of_pairs(pairs), quantile, level)
}

/// A quantile of windows' latencies in ns, each with its trial.
///
/// # Errors
/// As [`quantile_ratio`].
pub fn quantile_of(windows: &[(u32, Histogram)], quantile: Quantile, level: f64) -> Estimate {
    interval(&of_windows(windows, frame(windows)), quantile, level)
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
    let frame = frame(windows.iter().chain(against));
    let mut other = of_windows(against, frame);
    let both = of_windows(windows, frame).into_iter().filter_map(|(trial, [own])| {
        let [other] = other.remove(&trial)?;
        Some((trial, [other, own]))
    });
    interval(&both.collect(), quantile, level)
}

/// The quantile of all windows' latencies in ns, and that of each trial: what there is where trials differ too much for an
/// interval. `None` where there are fewer than [`fewest_latencies`], or where it is too long to tell.
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

fn observed<const N: usize>(trials: &BTreeMap<u32, [Counts; N]>, quantile: Quantile) -> Option<Observed> {
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
    pseudo_values(&of_pairs(pairs), quantile)
}

/// The same of one side.
///
/// # Errors
/// As [`quantile_ratio`].
pub fn quantile_logs(windows: &[(u32, Histogram)], quantile: Quantile) -> Result<Logs, NotEstimable> {
    pseudo_values(&of_windows(windows, frame(windows)), quantile)
}

fn of_pairs<'a>(pairs: impl IntoIterator<Item = &'a LatencyPair>) -> BTreeMap<u32, [Counts; 2]> {
    let pairs: Vec<&LatencyPair> = pairs.into_iter().collect();
    let frame = Frame::of(pairs.iter().flat_map(|pair| [&pair.baseline, &pair.arm]));
    let mut trials = BTreeMap::<u32, [Counts; 2]>::new();
    for pair in pairs {
        let [baseline, arm] = trials.entry(pair.trial).or_insert_with(|| [frame.empty(), frame.empty()]);
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

fn interval<const N: usize>(trials: &BTreeMap<u32, [Counts; N]>, quantile: Quantile, level: f64) -> Estimate {
    let count = u32::try_from(trials.len()).map_err(|_| NotEstimable::OutOfRange)?;
    told::enough(count)?;
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
    // What trials would have to vary by for Student's t over them to be as wide: whoever asks how many more it takes
    // goes by this.
    let half = (below + above) / 2.0;
    let spread = half * f64::from(count).sqrt() / t_two_sided(level, count);
    if [low, value, high].iter().any(|x| !x.is_normal()) || !spread.is_finite() {
        return Err(NotEstimable::OutOfRange);
    }
    Interval { value, low, high, level, trials: count, spread, slack: 0.0 }.widened(slack)
}

// How many times more the share beyond the quantile varies from group to group than it would if latencies came one by one; 1 at
// the least.
fn bursts(pooled: &Counts, groups: &[&Counts], quantile: Quantile) -> f64 {
    let Some(more) = more_beyond(pooled, groups, quantile) else { return 1.0 };
    let count = more.len() as f64;
    let variance = more.iter().map(|own| own.powi(2)).sum::<f64>() * count / (count - 1.0);
    let share = quantile.share();
    (variance / (pooled.total as f64 * (1.0 - share) * share)).max(1.0)
}

// How far the shares beyond the quantile of both sides go together from trial to trial, as a correlation; none where they do
// not, or go against each other. Of few trials a correlation is hardly known, and what is taken off for one that is not there makes
// intervals too narrow: it is one standard error less than what was found (R. A. Fisher, Metron 1, 1921).
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

// How many more are beyond the quantile of the pool in each group than its share of all, less the mean of that; `None` where the
// pool has no such quantile.
fn more_beyond(pooled: &Counts, groups: &[&Counts], quantile: Quantile) -> Option<Vec<f64>> {
    let at = pooled.at(quantile.share())?;
    let beyond = 1.0 - quantile.share();
    let more: Vec<f64> = groups.iter().map(|group| group.beyond(at) - beyond * group.total as f64).collect();
    let mean = more.iter().sum::<f64>() / more.len() as f64;
    Some(more.into_iter().map(|own| own - mean).collect())
}

// Runs of neighbours, which differ in length by one at most.
fn in_groups<const N: usize>(trials: &BTreeMap<u32, [Counts; N]>) -> Vec<[Counts; N]> {
    let sides: Vec<&[Counts; N]> = trials.values().collect();
    let groups = groups(sides.len());
    (0..groups).map(|group| pool(sides[members(group, groups, sides.len())].iter().copied())).collect()
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
        // Groups of unequal size: F. M. T. A. Busing, E. Meijer and R. van der Leeden, Statistics and Computing 9, 1999.
        let h = n as f64 / members(number, groups.len(), n).len() as f64;
        logs.push(h * log - (h - 1.0) * without);
    }
    Ok(Logs { logs, slack })
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

// All are in one frame.
fn pool<'a, const N: usize>(mut trials: impl Iterator<Item = &'a [Counts; N]>) -> [Counts; N] {
    let mut all = trials.next().cloned().unwrap_or_else(|| [(); N].map(|()| Frame::of([].iter()).empty()));
    for trial in trials {
        all.iter_mut().zip(trial).for_each(|(all, own)| all.join(own));
    }
    all
}

#[cfg(test)]
#[path = "../../tests/inside/pooled.rs"]
mod tests;
