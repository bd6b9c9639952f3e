//! One figure in two groups of trials that have nothing to do with each other: two machines,
//! kernels, days.

use super::student::t_quantile_at;
use super::{Estimate, Interval, NotEstimable, requirements};

/// The figure of the group `after` over that of the group `before`, from the log figures of their
/// trials, with Welch's t-interval at the confidence `level` (B. L. Welch, Biometrika 34, 1947):
/// the groups may differ in size and in spread.
///
/// [`Interval::trials`] is the number of trials of the smaller group, and [`Interval::spread`] the
/// standard deviation that would give the same interval with so many trials in both: what
/// [`super::trials_needed`] tells from them is a number of trials in *each* group.
///
/// # Limits
/// The interval knows how trials of one group differ from one another. What is common to all trials
/// of a group, such as a machine that is slower today, is part of the difference that it is about.
/// Where the figure is a slowdown it cancels, since both sides of that ratio were measured next to
/// each other.
///
/// # Errors
/// A group of fewer than [`FEWEST_TRIALS`](super::FEWEST_TRIALS); an interval wider than
/// [`WIDEST`](super::WIDEST); a level outside of 0..1; trials too far apart to be expressed.
pub fn ratio_between(before: &[f64], after: &[f64], level: f64) -> Estimate {
    if !(level > 0.0 && level < 1.0) {
        return Err(NotEstimable::InvalidLevel);
    }
    let fewest =
        u32::try_from(before.len().min(after.len())).map_err(|_| NotEstimable::OutOfRange)?;
    requirements::enough(fewest)?;
    requirements::narrow(welch(before, after, level, fewest)?)
}

// Of two trials on, however wide.
fn welch(before: &[f64], after: &[f64], level: f64, fewest: u32) -> Estimate {
    let (a, b) = (squared_error(before), squared_error(after));
    let freedom = |n: usize| n as f64 - 1.0;
    let together = freedom(before.len()) + freedom(after.len());
    let spread_over = a * a / freedom(before.len()) + b * b / freedom(after.len());
    // Groups without any spread have any number of degrees of freedom: the interval is a point.
    let degrees = if spread_over > 0.0 { (a + b).powi(2) / spread_over } else { together };
    let error = (a + b).sqrt();
    let middle = log_mean(after) - log_mean(before);
    let half = t_quantile_at(0.5 + level / 2.0, degrees.clamp(1.0, together)) * error;
    let bounds = [middle - half, middle, middle + half].map(f64::exp);
    let spread = error * f64::from(fewest).sqrt();
    if bounds.iter().any(|x| !x.is_normal()) || !spread.is_finite() {
        return Err(NotEstimable::OutOfRange);
    }
    let [low, value, high] = bounds;
    Ok(Interval { value, low, high, level, trials: fewest, spread, slack: 0.0 })
}

fn log_mean(logs: &[f64]) -> f64 {
    logs.iter().sum::<f64>() / logs.len() as f64
}

// The square of the standard error of the mean.
fn squared_error(logs: &[f64]) -> f64 {
    let n = logs.len() as f64;
    let mean = log_mean(logs);
    logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / (n - 1.0) / n
}

#[cfg(test)]
mod tests {
    use super::*;

    // Before 0.1, 0.2, 0.3: mean 0.2, variance 0.01, squared error 0.01 / 3. After 0.5, 0.9: mean
    // 0.7, variance 0.08, squared error 0.04. Error sqrt(0.0433333) = 0.2081666. Degrees of freedom
    // 0.0433333^2 / (0.0033333^2 / 2 + 0.04^2 / 1) = 0.00187778 / 0.00160556 = 1.169550.
    #[test]
    fn two_groups_by_hand() {
        let found = welch(&[0.1, 0.2, 0.3], &[0.5, 0.9], 0.95, 2).unwrap();
        assert!((found.value - 0.5f64.exp()).abs() < 1e-12);
        let t = t_quantile_at(0.975, 1.169_550_2);
        assert!((found.log_half_width() - t * 0.208_166_6).abs() < 1e-4, "{found:?}");
        // Between the table's values for one and two degrees of freedom.
        assert!((4.303..12.706).contains(&t), "{t}");
        assert_eq!(found.trials, 2);
        assert!((found.spread - 0.208_166_6 * 2f64.sqrt()).abs() < 1e-6);
    }

    // Equal groups of equal spread: 2 (n - 1) = 8 degrees of freedom, t = 2.306.
    #[test]
    fn equal_groups_are_students_t() {
        let (before, after) = ([0.0, 0.1, 0.2, 0.3, 0.4], [1.0, 1.1, 1.2, 1.3, 1.4]);
        let found = ratio_between(&before, &after, 0.95).unwrap();
        // Variance 0.025 each: error sqrt(2 * 0.025 / 5) = 0.1.
        assert!((found.log_half_width() - 0.2306).abs() < 1e-4);
        assert!((found.value - 1f64.exp()).abs() < 1e-9);
        let back = ratio_between(&after, &before, 0.95).unwrap();
        assert!((back.value * found.value - 1.0).abs() < 1e-12);
        assert!((back.low * found.high - 1.0).abs() < 1e-12);
    }

    #[test]
    fn a_group_that_cannot_be_estimated_is_a_reason() {
        let fine = [0.1, 0.2, 0.1, 0.2];
        assert_eq!(ratio_between(&[], &fine, 0.95), Err(NotEstimable::NothingMeasured));
        assert_eq!(
            ratio_between(&fine, &[0.1], 0.95),
            Err(NotEstimable::TooFewTrials { trials: 1 })
        );
        assert_eq!(ratio_between(&fine, &fine, 1.0), Err(NotEstimable::InvalidLevel));
        assert_eq!(
            ratio_between(&[-700.0, 700.0, -700.0, 700.0], &fine, 0.95),
            Err(NotEstimable::OutOfRange)
        );
        assert_eq!(
            ratio_between(&[f64::NAN, 0.0, 0.0, 0.0], &fine, 0.95),
            Err(NotEstimable::OutOfRange)
        );
        let same = ratio_between(&[0.5; 5], &[0.5; 4], 0.95).unwrap();
        assert_eq!((same.low, same.value, same.high), (1.0, 1.0, 1.0));
    }
}
