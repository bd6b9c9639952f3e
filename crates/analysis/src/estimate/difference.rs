//! How much more a unit of work costs in one case than in another, in nanoseconds.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::rate::totals;
use super::student::t_two_sided;
use super::{NotEstimable, Window, requirements};

/// A difference of two costs with its interval; any of the three figures may be negative.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Difference {
    /// Nanoseconds per unit, the arithmetic mean over trials.
    pub ns: f64,
    /// Lower bound.
    pub low: f64,
    /// Upper bound.
    pub high: f64,
    /// Confidence level of the two bounds.
    pub level: f64,
    /// Trials that it rests on.
    pub trials: u32,
}

/// `more - less`, trial by trial, in ns per unit, with a t-interval over the trials that have both.
///
/// # Errors
/// As [`super::rate`].
pub fn difference(
    more: &[(u32, Window)],
    less: &[(u32, Window)],
    level: f64,
) -> Result<Difference, NotEstimable> {
    let (more, less) = (costs(more)?, costs(less)?);
    over_trials(
        more.iter().filter_map(|(trial, more)| Some(more - less.get(trial)?)).collect(),
        level,
    )
}

/// The cost itself on the same scale: an arithmetic mean over trials, to be set beside differences.
///
/// # Errors
/// As [`super::rate`].
pub fn arithmetic_rate(windows: &[(u32, Window)], level: f64) -> Result<Difference, NotEstimable> {
    over_trials(costs(windows)?.into_values().collect(), level)
}

fn over_trials(figures: Vec<f64>, level: f64) -> Result<Difference, NotEstimable> {
    if !(level > 0.0 && level < 1.0) {
        return Err(NotEstimable::InvalidLevel);
    }
    let trials = figures.len() as u32;
    requirements::enough(trials)?;
    let n = f64::from(trials);
    let mean = figures.iter().sum::<f64>() / n;
    let variance = figures.iter().map(|figure| (figure - mean).powi(2)).sum::<f64>() / (n - 1.0);
    let half = t_two_sided(level, trials) * (variance / n).sqrt();
    if !(mean.is_finite() && half.is_finite()) {
        return Err(NotEstimable::OutOfRange);
    }
    Ok(Difference { ns: mean, low: mean - half, high: mean + half, level, trials })
}

fn costs(windows: &[(u32, Window)]) -> Result<BTreeMap<u32, f64>, NotEstimable> {
    Ok(totals(windows)?
        .into_iter()
        .map(|(trial, total)| (trial, total.log_ns_per_unit().exp()))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_by_hand() {
        let window = |units, ns| Window { units, ns };
        let more = [(1.0, 10.0), (2.0, 24.0), (1.0, 10.0), (2.0, 24.0), (1.0, 99.0)];
        let more: Vec<_> = (0..).zip(more.map(|(units, ns)| window(units, ns))).collect();
        let less: Vec<_> = (0..4).map(|trial| (trial, window(1.0, 7.0))).collect();
        // Trials 0 to 3 have both: 3 and 5 twice; mean 4, standard error sqrt(4 / 3 / 4), t(0.975,
        // 3) = 3.18245.
        let got = difference(&more, &less, 0.95).unwrap();
        let half = 3.182_45 / 3f64.sqrt();
        assert!((got.ns - 4.0).abs() < 1e-9 && (got.high - 4.0 - half).abs() < 1e-3, "{got:?}");
        assert!((got.low - 4.0 + half).abs() < 1e-3);
        assert_eq!(
            difference(&more, &less[..1], 0.95),
            Err(NotEstimable::TooFewTrials { trials: 1 })
        );
        assert_eq!(difference(&[], &less, 0.95), Err(NotEstimable::NothingMeasured));
        let alone = arithmetic_rate(&more, 0.95).unwrap();
        assert!((alone.ns - (2.0 * (10.0 + 12.0) + 99.0) / 5.0).abs() < 1e-9);
    }
}
