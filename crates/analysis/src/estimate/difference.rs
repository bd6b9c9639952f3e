//! How much more a unit of work costs in one case than in another, in nanoseconds.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::rate::totals;
use super::student::t_two_sided;
use super::{NotEstimable, Window, told};

/// A difference of two costs with its interval; any of the three figures may be negative.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    /// Nanoseconds per unit, the arithmetic mean over lives.
    pub ns: f64,
    /// Lower bound.
    pub low: f64,
    /// Upper bound.
    pub high: f64,
    /// Confidence level of the two bounds.
    pub level: f64,
    /// Lives that it rests on.
    pub lives: u32,
}

/// `more - less`, life by life, in ns per unit, with a t-interval over the lives that have both.
///
/// # Errors
/// As [`super::rate`].
pub fn difference(
    more: &[(u32, Window)],
    less: &[(u32, Window)],
    level: f64,
) -> Result<Difference, NotEstimable> {
    let (more, less) = (costs(more)?, costs(less)?);
    over_lives(more.iter().filter_map(|(life, more)| Some(more - less.get(life)?)).collect(), level)
}

/// The cost itself on the same scale: an arithmetic mean over lives, to be set beside differences.
///
/// # Errors
/// As [`super::rate`].
pub fn arithmetic_rate(windows: &[(u32, Window)], level: f64) -> Result<Difference, NotEstimable> {
    over_lives(costs(windows)?.into_values().collect(), level)
}

fn over_lives(figures: Vec<f64>, level: f64) -> Result<Difference, NotEstimable> {
    if !(level > 0.0 && level < 1.0) {
        return Err(NotEstimable::InvalidLevel);
    }
    let lives = figures.len() as u32;
    told::enough(lives)?;
    let n = f64::from(lives);
    let mean = figures.iter().sum::<f64>() / n;
    let variance = figures.iter().map(|figure| (figure - mean).powi(2)).sum::<f64>() / (n - 1.0);
    let half = t_two_sided(level, lives) * (variance / n).sqrt();
    if !(mean.is_finite() && half.is_finite()) {
        return Err(NotEstimable::OutOfRange);
    }
    Ok(Difference { ns: mean, low: mean - half, high: mean + half, level, lives })
}

fn costs(windows: &[(u32, Window)]) -> Result<BTreeMap<u32, f64>, NotEstimable> {
    Ok(totals(windows)?.into_iter().map(|(life, total)| (life, total.log_ns_per_unit().exp())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_by_hand() {
        let window = |units, ns| Window { units, ns };
        let more = [(1.0, 10.0), (2.0, 24.0), (1.0, 10.0), (2.0, 24.0), (1.0, 99.0)];
        let more: Vec<_> = (0..).zip(more.map(|(units, ns)| window(units, ns))).collect();
        let less: Vec<_> = (0..4).map(|life| (life, window(1.0, 7.0))).collect();
        // Lives 0 to 3 have both: 3 and 5 twice; mean 4, standard error sqrt(4 / 3 / 4), t(0.975, 3) = 3.18245.
        let got = difference(&more, &less, 0.95).unwrap();
        let half = 3.182_45 / 3f64.sqrt();
        assert!((got.ns - 4.0).abs() < 1e-9 && (got.high - 4.0 - half).abs() < 1e-3, "{got:?}");
        assert!((got.low - 4.0 + half).abs() < 1e-3);
        assert_eq!(difference(&more, &less[..1], 0.95), Err(NotEstimable::TooFewLives { lives: 1 }));
        assert_eq!(difference(&[], &less, 0.95), Err(NotEstimable::NothingMeasured));
        let alone = arithmetic_rate(&more, 0.95).unwrap();
        assert!((alone.ns - (2.0 * (10.0 + 12.0) + 99.0) / 5.0).abs() < 1e-9);
    }
}
