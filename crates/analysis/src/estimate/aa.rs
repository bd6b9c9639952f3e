//! What this machine finds where there is nothing to find, and how small an effect it can see.

use serde::{Deserialize, Serialize};
use statrs::distribution::{Beta, ContinuousCDF};

use super::student::{t_quantile, t_two_sided};
use super::{Estimate, Interval};
use crate::quantile::quantile;

/// The chance at which the smallest detectable effect is found.
pub const POWER: f64 = 0.8;

/// A share with its interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Proportion {
    /// The share, in 0..=1.
    pub value: f64,
    /// Lower bound.
    pub low: f64,
    /// Upper bound.
    pub high: f64,
    /// Confidence level of the bounds.
    pub level: f64,
}

/// The outcome of many comparisons of an arm with itself.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AaSummary {
    /// Comparisons that gave an interval.
    pub estimates: u32,
    /// Comparisons that gave none; they are in no figure below.
    pub not_estimable: u32,
    /// Intervals that leave out 1.
    pub false_alarms: u32,
    /// False alarms over estimates. Its interval takes the comparisons for independent: those that
    /// share trials are not.
    pub false_alarm_rate: Option<Proportion>,
    /// The error that the intervals allow on average: what the rate should not exceed.
    pub allowed_rate: Option<f64>,
    /// The relative change of time per unit that is found with a chance of [`POWER`], by the median
    /// estimate, at its own level and number of trials.
    pub smallest_detectable: Option<f64>,
}

impl AaSummary {
    /// Summarises estimates of which it is known that the true slowdown is 1. `level` is that of
    /// the interval of the false alarm rate.
    pub fn new(estimates: &[Estimate], level: f64) -> Self {
        let intervals: Vec<&Interval> = estimates.iter().flatten().collect();
        let n = intervals.len() as u32;
        let false_alarms =
            intervals.iter().filter(|interval| !interval.contains(1.0)).count() as u32;
        let mut detectable: Vec<f64> =
            intervals.iter().map(|interval| detectable(interval)).collect();
        detectable.sort_by(f64::total_cmp);
        let allowed: f64 = intervals.iter().map(|interval| 1.0 - interval.level).sum();
        Self {
            estimates: n,
            not_estimable: estimates.len() as u32 - n,
            false_alarms,
            false_alarm_rate: Proportion::new(false_alarms, n, level),
            allowed_rate: (n > 0).then(|| allowed / f64::from(n)),
            smallest_detectable: (n > 0)
                .then(|| quantile(&detectable, 0.5).exp_m1())
                .filter(|effect| effect.is_finite()),
        }
    }
}

/// The log effect that an interval like this one leaves out 1 for with a chance of [`POWER`]:
/// standard error times the sum of the two quantiles of t (Bloom, "Minimum detectable effects",
/// Evaluation Review 19, 1995).
fn detectable(interval: &Interval) -> f64 {
    let standard_error = interval.spread / f64::from(interval.trials).sqrt();
    let by_trials = standard_error
        * (t_two_sided(interval.level, interval.trials) + t_quantile(POWER, interval.trials));
    by_trials + interval.slack
}

/// The largest spread of trials, as a standard deviation of the logarithm, at which a log effect is
/// still found with a chance of [`POWER`] by so many trials at this level: the inverse of what a
/// summary calls the smallest detectable effect. `None` for fewer than two trials or no valid
/// level.
pub fn most_spread(log_effect: f64, level: f64, trials: u32) -> Option<f64> {
    (trials >= 2 && level > 0.0 && level < 1.0).then(|| {
        log_effect * f64::from(trials).sqrt()
            / (t_two_sided(level, trials) + t_quantile(POWER, trials))
    })
}

impl Proportion {
    /// `hits` out of `of` with the exact interval of Clopper and Pearson (Biometrika 26, 1934),
    /// which never claims more than its level. None if there are no trials, more hits than trials,
    /// or no valid level.
    pub fn new(hits: u32, of: u32, level: f64) -> Option<Self> {
        if of == 0 || hits > of || !(level > 0.0 && level < 1.0) {
            return None;
        }
        let tail = (1.0 - level) / 2.0;
        let (k, n) = (f64::from(hits), f64::from(of));
        let bound = |a: f64, b: f64, p| Beta::new(a, b).ok().map(|beta| beta.inverse_cdf(p));
        let low = if hits == 0 { 0.0 } else { bound(k, n - k + 1.0, tail)? };
        let high = if hits == of { 1.0 } else { bound(k + 1.0, n - k, 1.0 - tail)? };
        Some(Self { value: k / n, low, high, level })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimate::NotEstimable;

    // Closed forms: without hits the upper bound is 1 - (tail)^(1/n); for 5 of 10 the tables give
    // 0.1871, 0.8129.
    #[test]
    fn clopper_and_pearson_by_hand() {
        let none = Proportion::new(0, 10, 0.95).unwrap();
        assert_eq!((none.value, none.low), (0.0, 0.0));
        assert!((none.high - (1.0 - 0.025f64.powf(0.1))).abs() < 1e-6);
        let all = Proportion::new(10, 10, 0.95).unwrap();
        assert!(all.high == 1.0 && (all.low - 0.025f64.powf(0.1)).abs() < 1e-6);
        let half = Proportion::new(5, 10, 0.95).unwrap();
        assert!((half.low - 0.1871).abs() < 1e-4 && (half.high - 0.8129).abs() < 1e-4);
        for (hits, of, level) in [(0, 0, 0.95), (2, 1, 0.95), (1, 2, 1.0), (1, 2, f64::NAN)] {
            assert_eq!(Proportion::new(hits, of, level), None);
        }
    }

    #[test]
    fn bounds_leave_the_tails_they_claim() {
        let found = Proportion::new(100, 2_000, 0.95).unwrap();
        let tail = |a, b, x| Beta::new(a, b).unwrap().cdf(x);
        assert!((tail(100.0, 1_901.0, found.low) - 0.025).abs() < 1e-6);
        assert!((tail(101.0, 1_900.0, found.high) - 0.975).abs() < 1e-6);
        assert!((found.low - 0.0409).abs() < 1e-4 && (found.high - 0.0605).abs() < 1e-4);
    }

    // 10 trials, spread 0.02, 95 %: 0.02 / sqrt 10 * (2.2622 + 0.8834) = 0.019895.
    #[test]
    fn a_summary_by_hand() {
        let interval = |low, high| {
            Ok(Interval {
                value: 1.0,
                low,
                high,
                level: 0.95,
                trials: 10,
                spread: 0.02,
                slack: 0.0,
            })
        };
        let estimates = [
            interval(0.9, 1.1),
            interval(1.01, 1.1),
            interval(0.9, 0.99),
            Err(NotEstimable::OutOfRange),
        ];
        let summary = AaSummary::new(&estimates, 0.95);
        assert_eq!((summary.estimates, summary.not_estimable, summary.false_alarms), (3, 1, 2));
        assert!((summary.false_alarm_rate.unwrap().value - 2.0 / 3.0).abs() < 1e-12);
        assert!((summary.allowed_rate.unwrap() - 0.05).abs() < 1e-12);
        assert!((summary.smallest_detectable.unwrap() - 0.019895f64.exp_m1()).abs() < 1e-5);
    }

    #[test]
    fn the_spread_that_is_allowed_makes_the_effect_just_detectable() {
        let spread = most_spread(0.02, 0.975, 20).unwrap();
        let interval = Interval {
            value: 1.0,
            low: 0.9,
            high: 1.1,
            level: 0.975,
            trials: 20,
            spread,
            slack: 0.0,
        };
        assert!((detectable(&interval) - 0.02).abs() < 1e-12);
        assert_eq!((most_spread(0.02, 0.95, 1), most_spread(0.02, 1.0, 9)), (None, None));
    }

    #[test]
    fn no_estimates_no_figures() {
        let summary = AaSummary::new(&[], 0.95);
        assert_eq!((summary.false_alarm_rate, summary.smallest_detectable), (None, None));
    }
}
