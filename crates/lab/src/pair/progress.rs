//! From samples to progress: how fast tasks run beside each other, life by life.

use std::collections::BTreeMap;

use super::assignment::Assignment;
use crate::estimate::{Estimate, Interval, NotEstimable, Pair};
use crate::plan::Plan;
use crate::results;
use crate::sample::Sample;

/// The rate beside another over the rate alone, for every pair of kinds measured, in every life that has
/// them all.
///
/// Lives are kept apart, since all pairs of a life share its memory layouts and its time: sums over
/// pairs are made within a life, and only they are compared over lives.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    // Per ordered pair of kinds, a figure per life, in the same order of lives.
    of: BTreeMap<(usize, usize), Vec<f64>>,
    lives: usize,
}

impl Progress {
    /// Of the experiments that [`super::Question`] makes.
    ///
    /// # Errors
    /// Where a task did no work in a whole life alone, so that there is nothing to compare with.
    pub fn new(plan: &Plan, samples: &[Sample]) -> Result<Self, NotEstimable> {
        let by_case = results::pairs_by_case(plan, samples);
        let mut of = BTreeMap::new();
        for (case, pairs) in &by_case {
            let kind = |role: usize| {
                let active = plan.cases[*case].active.iter().find(|active| active.role == role)?;
                Some(plan.variants[active.role][active.variant].table)
            };
            // The task is the first role, its neighbour the second.
            if let (Some(task), Some(neighbour)) = (kind(0), kind(1)) {
                of.insert((task, neighbour), by_life(pairs)?);
            }
        }
        let mut lives: Vec<u32> = match of.values().next() {
            Some(first) => first.keys().copied().collect(),
            None => Vec::new(),
        };
        // The last life may have been cut short.
        lives.retain(|life| of.values().all(|figures| figures.contains_key(life)));
        let of =
            of.into_iter().map(|(pair, figures)| (pair, lives.iter().map(|life| figures[life]).collect()));
        Ok(Self { of: of.collect(), lives: lives.len() })
    }

    /// Lives in which everything was measured.
    pub fn lives(&self) -> usize {
        self.lives
    }

    /// Per life, the total progress of an assignment of kinds: the number of its tasks where nobody
    /// disturbs anybody. A pair that was not measured has none.
    pub fn totals(&self, kinds: &Assignment) -> Option<Vec<f64>> {
        let mut totals = vec![if kinds.alone.is_some() { 1.0 } else { 0.0 }; self.lives];
        for &(a, b) in &kinds.pairs {
            for side in [(a, b), (b, a)] {
                for (total, figure) in totals.iter_mut().zip(self.of.get(&side)?) {
                    *total += figure;
                }
            }
        }
        Some(totals)
    }

    /// The total progress of one assignment over that of another: a log-ratio per life, and Student's t
    /// over lives.
    ///
    /// # Errors
    /// Where there are too few lives, or one in which nothing moved at all.
    pub fn gain(&self, from: &Assignment, to: &Assignment, level: f64) -> Estimate {
        let (Some(from), Some(to)) = (self.totals(from), self.totals(to)) else {
            return Err(NotEstimable::NothingMeasured);
        };
        let still = |totals: &[f64]| totals.iter().filter(|total| **total <= 0.0).count() as u32;
        let (baseline, arm) = (still(&from), still(&to));
        if baseline + arm > 0 {
            return Err(NotEstimable::Stalled { baseline, arm, of: self.lives as u32 });
        }
        let logs: Vec<f64> = from.iter().zip(&to).map(|(from, to)| (to / from).ln()).collect();
        Interval::over_lives(&logs, level)
    }
}

/// The geometric mean over lives, so that whatever has the larger one has a gain above 1; no number
/// where there is no life.
pub fn mean(totals: &[f64]) -> f64 {
    (totals.iter().map(|total| total.ln()).sum::<f64>() / totals.len() as f64).exp()
}

// Progress is 0 where a task stood still beside the other for a whole life: that is a figure like any.
fn by_life(pairs: &[Pair]) -> Result<BTreeMap<u32, f64>, NotEstimable> {
    #[derive(Default)]
    struct Sums {
        alone: (f64, f64),
        beside: (f64, f64),
    }
    let mut lives = BTreeMap::<u32, Sums>::new();
    for pair in pairs {
        if !(pair.baseline.is_valid() && pair.arm.is_valid()) {
            return Err(NotEstimable::InvalidWindow { life: pair.life });
        }
        let sums = lives.entry(pair.life).or_default();
        for (sum, window) in [(&mut sums.alone, pair.baseline), (&mut sums.beside, pair.arm)] {
            sum.0 += window.units;
            sum.1 += window.ns;
        }
    }
    let still = lives.values().filter(|sums| sums.alone.0 == 0.0).count() as u32;
    if still > 0 {
        return Err(NotEstimable::Stalled { baseline: still, arm: 0, of: lives.len() as u32 });
    }
    let rate = |(units, ns): (f64, f64)| units / ns;
    Ok(lives.into_iter().map(|(life, sums)| (life, rate(sums.beside) / rate(sums.alone))).collect())
}
