//! What differs between two groups of hosts, or between before and after on the same hosts.

use super::effects::Fit;
use super::moderate::moderated;
use super::{FEWEST_HOSTS, OnHost};
use crate::estimate::{Estimate, Interval, NotEstimable, t_quantile_at};

/// The middle of the group `after` over that of `before`, which are different hosts: Welch's
/// interval of the two summaries.
///
/// # Errors
/// A group of fewer than [`FEWEST_HOSTS`], which stand for trials here.
pub fn between_groups(before: &[OnHost], after: &[OnHost], level: f64) -> Estimate {
    let fewest = enough(before.len().min(after.len()))?;
    let fits = [before, after].map(|group| Fit::of(moderated(group).iter()));
    let [a, b] = fits.map(|fit| fit.error * fit.error);
    let freedom = |group: &[OnHost]| group.len() as f64 - 1.0;
    let over = a * a / freedom(before) + b * b / freedom(after);
    let degrees =
        if over > 0.0 { (a + b).powi(2) / over } else { freedom(before) + freedom(after) };
    told(fits[1].middle - fits[0].middle, (a + b).sqrt(), degrees, fewest, level)
}

/// How each host's figure changed, `(before, after)` host by host, summarised over hosts.
///
/// # Errors
/// Fewer than [`FEWEST_HOSTS`], which stand for trials here.
pub fn same_hosts(hosts: &[(OnHost, OnHost)], level: f64) -> Estimate {
    let count = enough(hosts.len())?;
    let change = |(before, after): &(OnHost, OnHost)| OnHost {
        log: after.log - before.log,
        variance: before.variance + after.variance,
        freedom: before.freedom.min(after.freedom),
    };
    let changes: Vec<OnHost> = hosts.iter().map(change).collect();
    let fit = Fit::of(moderated(&changes).iter());
    told(fit.middle, fit.error, f64::from(count) - 1.0, count, level)
}

fn enough(hosts: usize) -> Result<u32, NotEstimable> {
    let trials = u32::try_from(hosts).map_err(|_| NotEstimable::OutOfRange)?;
    match hosts {
        0 => Err(NotEstimable::NothingMeasured),
        few if few < FEWEST_HOSTS => Err(NotEstimable::TooFewTrials { trials }),
        _ => Ok(trials),
    }
}

fn told(middle: f64, error: f64, degrees: f64, trials: u32, level: f64) -> Estimate {
    if !(level > 0.0 && level < 1.0) {
        return Err(NotEstimable::InvalidLevel);
    }
    let half = t_quantile_at(0.5 + level / 2.0, degrees.max(1.0)) * error;
    let bounds = [middle - half, middle, middle + half].map(f64::exp);
    if bounds.iter().any(|bound| !bound.is_normal()) {
        return Err(NotEstimable::OutOfRange);
    }
    let [low, value, high] = bounds;
    Ok(Interval {
        value,
        low,
        high,
        level,
        trials,
        spread: error * f64::from(trials).sqrt(),
        slack: 0.0,
    })
}
