//! What a unit of work costs.

use std::collections::BTreeMap;

use super::window::Total;
use super::{Estimate, Interval, NotEstimable, Window};

/// Nanoseconds per unit of work, with a t-interval over trials at the confidence `level`.
///
/// Takes windows with the trial that each belongs to. A trial's figure is all its ns over all its
/// units.
///
/// # Errors
///
/// [`NotEstimable::NoWork`] if there are trials in which no unit was done.
pub fn rate(windows: &[(u32, Window)], level: f64) -> Estimate {
    Interval::over_trials(&rate_logs(windows)?, level)
}

/// The log of each trial's ns per unit, in the order of the trials' numbers: what the interval
/// rests on.
///
/// # Errors
/// As [`rate`].
pub fn rate_logs(windows: &[(u32, Window)]) -> Result<Vec<f64>, NotEstimable> {
    Ok(totals(windows)?.values().map(Total::log_ns_per_unit).collect())
}

/// The ns per unit of some windows over that of others, trial by trial, with a t-interval over the
/// trials that have both: for cases of one experiment, whose trials are the same.
///
/// # Errors
/// As [`rate`].
pub fn rate_ratio(windows: &[(u32, Window)], against: &[(u32, Window)], level: f64) -> Estimate {
    let (own, other) = (totals(windows)?, totals(against)?);
    let log = |(trial, total): (&u32, &Total)| {
        Some(total.log_ns_per_unit() - other.get(trial)?.log_ns_per_unit())
    };
    Interval::over_trials(&own.iter().filter_map(log).collect::<Vec<f64>>(), level)
}

/// The work and the time of each trial, none of them without work.
pub(super) fn totals(windows: &[(u32, Window)]) -> Result<BTreeMap<u32, Total>, NotEstimable> {
    let mut trials = BTreeMap::<u32, Total>::new();
    for (trial, window) in windows {
        if !window.is_valid() {
            return Err(NotEstimable::InvalidWindow { trial: *trial });
        }
        trials.entry(*trial).or_default().add(window);
    }
    let idle = trials.values().filter(|trial| trial.stalled()).count() as u32;
    if idle > 0 {
        return Err(NotEstimable::NoWork { trials: idle, of: trials.len() as u32 });
    }
    Ok(trials)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Trials 1 and 3: 20 against 10 ns per unit, 2 and 4: 40 against 5: ratios 2 and 8, geometric
    // mean 4. The logs lie ln 2 to either side: spread ln 2 sqrt(4 / 3). Trial 5 has only one side.
    #[test]
    fn a_ratio_by_hand() {
        let window = |ns| Window { units: 1.0, ns };
        let own = [20.0, 40.0, 20.0, 40.0, 1.0];
        let own: Vec<_> = (1..).zip(own.map(window)).collect();
        let other = [(2, window(5.0)), (1, window(10.0)), (4, window(5.0)), (3, window(10.0))];
        let found = rate_ratio(&own, &other, 0.95).unwrap();
        assert!((found.value - 4.0).abs() < 1e-12 && found.trials == 4);
        assert!((found.spread - 2f64.ln() * (4.0f64 / 3.0).sqrt()).abs() < 1e-12);
        assert_eq!(rate_ratio(&own, &[], 0.95), Err(NotEstimable::NothingMeasured));
    }

    // Trials 1 and 3: 400 ns / 4 units = 100; 2 and 4: 900 / 1 = 900. Geometric mean 300, the logs
    // ln 3 to either side.
    #[test]
    fn ns_per_unit_by_hand() {
        let window = |units, ns| Window { units, ns };
        let two = [(1, window(1.0, 300.0)), (1, window(3.0, 100.0)), (2, window(1.0, 900.0))];
        let windows = [two, two.map(|(trial, window)| (trial + 2, window))].concat();
        let estimate = rate(&windows, 0.95).unwrap();
        assert!((estimate.value - 300.0).abs() < 1e-9);
        assert!((estimate.spread - 3f64.ln() * (4.0f64 / 3.0).sqrt()).abs() < 1e-12);
        assert_eq!(
            rate(&[(1, window(0.0, 1.0)), (2, window(1.0, 1.0))], 0.95),
            Err(NotEstimable::NoWork { trials: 1, of: 2 })
        );
        assert_eq!(
            rate(&[(4, window(1.0, -1.0))], 0.95),
            Err(NotEstimable::InvalidWindow { trial: 4 })
        );
    }
}
