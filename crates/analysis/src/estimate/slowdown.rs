//! The primary figure.

use std::collections::BTreeMap;

use super::window::Total;
use super::{Estimate, Interval, NotEstimable, Pair};

/// The slowdown of the arm against its baseline (1.00 unchanged, 12.0 twelve times slower), with a
/// t-interval over trials at the confidence `level`.
///
/// # Limits
///
/// Student's t supposes that trials scatter around one value. It bears two values that are both
/// common, but no handful of trials knows of a rare one: where one trial in ten is 12x slower and
/// the others are not, a 95 % interval holds the geometric mean in 65 % of the experiments with 10
/// trials, 88 % with 20, 91 % with 40.
///
/// # Errors
///
/// A trial in which either side did no work at all has no finite log-ratio. Leaving it out would
/// hide the worst harm there is, so it makes the figure [`NotEstimable::Stalled`]. Stalls of single
/// windows count in full.
pub fn slowdown(pairs: &[Pair], level: f64) -> Estimate {
    slowdown_of(pairs.iter(), level)
}

pub(super) fn slowdown_of<'a>(pairs: impl Iterator<Item = &'a Pair>, level: f64) -> Estimate {
    Interval::over_trials(&logs(pairs)?, level)
}

/// The log of each trial's slowdown, in the order of the trials' numbers: what the interval rests
/// on.
///
/// # Errors
/// As [`slowdown`].
pub fn slowdown_logs(pairs: &[Pair]) -> Result<Vec<f64>, NotEstimable> {
    logs(pairs.iter())
}

fn logs<'a>(pairs: impl Iterator<Item = &'a Pair>) -> Result<Vec<f64>, NotEstimable> {
    let mut trials = BTreeMap::<u32, [Total; 2]>::new();
    for pair in pairs {
        if !(pair.baseline.is_valid() && pair.arm.is_valid()) {
            return Err(NotEstimable::InvalidWindow { trial: pair.trial });
        }
        let [baseline, arm] = trials.entry(pair.trial).or_default();
        baseline.add(&pair.baseline);
        arm.add(&pair.arm);
    }
    let count = |side: usize| trials.values().filter(|trial| trial[side].stalled()).count() as u32;
    let (baseline, arm) = (count(0), count(1));
    if baseline + arm > 0 {
        return Err(NotEstimable::Stalled { baseline, arm, of: trials.len() as u32 });
    }
    Ok(trials
        .values()
        .map(|[baseline, arm]| arm.log_ns_per_unit() - baseline.log_ns_per_unit())
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimate::Window;
    use ringfence_experiment::class::Class;

    fn pair(trial: u32, baseline: (f64, f64), arm: (f64, f64)) -> Pair {
        let window = |(units, ns)| Window { units, ns };
        Pair { trial, class: Class::Unprobed, baseline: window(baseline), arm: window(arm) }
    }

    // Twice over. Trial 1: (100 + 300) / (10 + 10) = 20 alone, (100 + 0) / (10 + 10) = 5 beside:
    // 4x. The mean of the two windows' ratios would have been infinite. Trial 2: 30 / 10 against 30
    // / 10: 1x. Geometric mean: 2x.
    #[test]
    fn totals_of_a_trial_are_compared_not_its_windows() {
        let pairs = [0, 2].map(|trial| {
            [
                pair(trial + 1, (100.0, 10.0), (100.0, 10.0)),
                pair(trial + 1, (300.0, 10.0), (0.0, 10.0)),
                pair(trial + 2, (30.0, 10.0), (30.0, 10.0)),
            ]
        });
        let estimate = slowdown(&pairs.concat(), 0.95).unwrap();
        assert!((estimate.value - 2.0).abs() < 1e-12);
        assert_eq!(estimate.trials, 4);
        // Logs ln 4 and 0: sd = ln 2 sqrt(4 / 3), half-width = 3.18245 * ln 2 / sqrt 3.
        assert!((estimate.log_half_width() - 3.182_446 * 2f64.ln() / 3f64.sqrt()).abs() < 1e-4);
    }

    #[test]
    fn windows_of_unequal_length_are_rates() {
        let pairs = [0, 2].map(|trial| {
            [pair(trial + 1, (10.0, 1.0), (10.0, 2.0)), pair(trial + 2, (40.0, 4.0), (5.0, 1.0))]
        });
        let estimate = slowdown(&pairs.concat(), 0.95).unwrap();
        assert!((estimate.value - 2.0).abs() < 1e-12 && estimate.spread < 1e-12);
    }

    #[test]
    fn a_trial_without_work_is_a_reason_not_a_panic() {
        let fine = pair(1, (10.0, 1.0), (10.0, 1.0));
        let stalled_arm = pair(2, (10.0, 1.0), (0.0, 1.0));
        let stalled_both = pair(3, (0.0, 1.0), (0.0, 1.0));
        assert_eq!(
            slowdown(&[fine, stalled_arm, stalled_both], 0.95),
            Err(NotEstimable::Stalled { baseline: 1, arm: 2, of: 3 })
        );
    }

    #[test]
    fn one_trial_or_a_broken_window_is_a_reason() {
        let fine = pair(7, (10.0, 1.0), (10.0, 1.0));
        assert_eq!(slowdown(&[], 0.95), Err(NotEstimable::NothingMeasured));
        assert_eq!(slowdown(&[fine, fine], 0.95), Err(NotEstimable::TooFewTrials { trials: 1 }));
        for broken in [(f64::NAN, 1.0), (-1.0, 1.0), (1.0, 0.0), (1.0, f64::INFINITY)] {
            let pairs = [fine, pair(8, (1.0, 1.0), broken)];
            assert_eq!(slowdown(&pairs, 0.95), Err(NotEstimable::InvalidWindow { trial: 8 }));
        }
        let huge = pair(9, (1.0, f64::MAX), (1.0, 1.0));
        let fine: Vec<Pair> = (10..14).map(|trial| Pair { trial, ..fine }).collect();
        assert_eq!(
            slowdown(&[&fine[..], &[huge, huge]].concat(), 0.95),
            Err(NotEstimable::OutOfRange)
        );
    }
}
