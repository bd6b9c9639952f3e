//! From samples to progress: how fast tasks run next to each other, trial by trial.

use std::collections::BTreeMap;

use ringfence_analysis::estimate::{Estimate, Interval, NotEstimable, Pair};
use ringfence_analysis::results;
use ringfence_experiment::plan::Plan;
use ringfence_experiment::sample::Sample;

use super::assignment::Assignment;

/// The rate beside another over the rate alone, for every pair of kinds measured, over the trials
/// that have them all.
///
/// A task's figure is the geometric mean over trials, as that of a slowdown is: its inverse. An
/// assignment's total is the sum of these. (A geometric mean of sums made within each trial would
/// be larger than the sum of the means wherever trials scatter: by noise alone, four tasks that
/// keep all of their rates would come to more than four.) All pairs of a trial share its memory
/// layouts and its time: what is compared over trials, by Student's t, is how far each trial moves
/// the total (the delta method), not each task by itself.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    of: BTreeMap<(usize, usize), Kept>,
    trials: usize,
}

/// The share of its rate that a task keeps next to another.
#[derive(Debug, Clone, PartialEq)]
struct Kept {
    mean: f64,
    /// By how much each trial moves the mean, in the same order of trials everywhere; the sum is 0.
    moves: Vec<f64>,
}

impl Kept {
    fn new(figures: &[f64]) -> Self {
        let mean =
            |of: &dyn Fn(&f64) -> f64| figures.iter().map(of).sum::<f64>() / figures.len() as f64;
        // A trial in which it stood still has no logarithm, and is a figure like any: arithmetic
        // then.
        if figures.contains(&0.0) {
            let middle = mean(&|figure| *figure);
            return Self {
                mean: middle,
                moves: figures.iter().map(|figure| figure - middle).collect(),
            };
        }
        let log = mean(&|figure| figure.ln());
        let middle = log.exp();
        Self {
            mean: middle,
            moves: figures.iter().map(|figure| middle * (figure.ln() - log)).collect(),
        }
    }
}

impl Progress {
    /// Of the experiments that [`super::Question`] makes.
    ///
    /// # Errors
    /// Where a task did no work in a whole trial alone, so that there is nothing to compare with,
    /// and where too many windows lasted too long.
    pub fn new(plan: &Plan, samples: &[Sample]) -> Result<Self, NotEstimable> {
        let by_case = results::pairs_by_case(plan, samples)?;
        let mut of = BTreeMap::new();
        for (case, pairs) in &by_case {
            let kind = |role: usize| {
                let active = plan.cases[*case].active.iter().find(|active| active.role == role)?;
                Some(plan.variants[active.role][active.variant].table)
            };
            // The task is the first role, its neighbour the second.
            if let (Some(task), Some(neighbour)) = (kind(0), kind(1)) {
                of.insert((task, neighbour), by_trial(pairs)?);
            }
        }
        let mut trials: Vec<u32> = match of.values().next() {
            Some(first) => first.keys().copied().collect(),
            None => Vec::new(),
        };
        // The last trial may have been cut short.
        trials.retain(|trial| of.values().all(|figures| figures.contains_key(trial)));
        let kept = |figures: BTreeMap<u32, f64>| {
            Kept::new(&trials.iter().map(|trial| figures[trial]).collect::<Vec<f64>>())
        };
        let of = of.into_iter().map(|(pair, figures)| (pair, kept(figures)));
        Ok(Self { of: of.collect(), trials: trials.len() })
    }

    /// Trials in which everything was measured.
    pub fn trials(&self) -> usize {
        self.trials
    }

    /// The total progress of an assignment of kinds: the number of its tasks where there is no
    /// interference. None where a pair was not measured, or there is no trial.
    pub fn total(&self, kinds: &Assignment) -> Option<f64> {
        Some(self.sum(kinds)?.0).filter(|total| total.is_finite())
    }

    /// The same with its interval.
    ///
    /// # Errors
    /// Where there are too few trials, or nothing moved at all.
    pub fn total_estimate(&self, kinds: &Assignment, level: f64) -> Estimate {
        let (total, moves) = self.sum(kinds).ok_or(NotEstimable::NothingMeasured)?;
        if total <= 0.0 {
            return Err(NotEstimable::Stalled {
                baseline: 0,
                arm: self.trials as u32,
                of: self.trials as u32,
            });
        }
        let logs: Vec<f64> = moves.iter().map(|by| total.ln() + by / total).collect();
        Interval::over_trials(&logs, level)
    }

    /// The total progress of one assignment over that of another, with Student's t over trials.
    ///
    /// # Errors
    /// Where there are too few trials, or one in which nothing moves at all.
    pub fn gain(&self, from: &Assignment, to: &Assignment, level: f64) -> Estimate {
        let (Some((from, before)), Some((to, after))) = (self.sum(from), self.sum(to)) else {
            return Err(NotEstimable::NothingMeasured);
        };
        let trials = self.trials as u32;
        let still = |total: f64| if total <= 0.0 { trials } else { 0 };
        let (baseline, arm) = (still(from), still(to));
        if baseline + arm > 0 {
            return Err(NotEstimable::Stalled { baseline, arm, of: trials });
        }
        let gain = (to / from).ln();
        let logs: Vec<f64> = before
            .iter()
            .zip(&after)
            .map(|(before, after)| gain + after / to - before / from)
            .collect();
        Interval::over_trials(&logs, level)
    }

    // The total and by how much each trial moves it.
    fn sum(&self, kinds: &Assignment) -> Option<(f64, Vec<f64>)> {
        let mut total = if kinds.alone.is_some() { 1.0 } else { 0.0 };
        let mut moves = vec![0.0; self.trials];
        for &(a, b) in &kinds.pairs {
            for side in [(a, b), (b, a)] {
                let kept = self.of.get(&side)?;
                total += kept.mean;
                moves.iter_mut().zip(&kept.moves).for_each(|(all, by)| *all += by);
            }
        }
        Some((total, moves))
    }
}

// Progress is 0 where a task stood still beside the other for a whole trial: that is a figure like
// any.
fn by_trial(pairs: &[Pair]) -> Result<BTreeMap<u32, f64>, NotEstimable> {
    #[derive(Default)]
    struct Sums {
        alone: (f64, f64),
        beside: (f64, f64),
    }
    let mut trials = BTreeMap::<u32, Sums>::new();
    for pair in pairs {
        if !(pair.baseline.is_valid() && pair.arm.is_valid()) {
            return Err(NotEstimable::InvalidWindow { trial: pair.trial });
        }
        let sums = trials.entry(pair.trial).or_default();
        for (sum, window) in [(&mut sums.alone, pair.baseline), (&mut sums.beside, pair.arm)] {
            sum.0 += window.units;
            sum.1 += window.ns;
        }
    }
    let still = trials.values().filter(|sums| sums.alone.0 == 0.0).count() as u32;
    if still > 0 {
        return Err(NotEstimable::Stalled { baseline: still, arm: 0, of: trials.len() as u32 });
    }
    let rate = |(units, ns): (f64, f64)| units / ns;
    Ok(trials
        .into_iter()
        .map(|(trial, sums)| (trial, rate(sums.beside) / rate(sums.alone)))
        .collect())
}
