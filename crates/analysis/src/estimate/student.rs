//! Student's t: the intervals of a few trials, and how many it takes.

use statrs::distribution::{ContinuousCDF, StudentsT};

/// More trials than this are not proposed.
pub const MOST_TRIALS: u32 = 10_000;

/// The quantile of Student's t that leaves `level` between itself and its negative, for this many
/// trials (>= 2).
pub(crate) fn t_two_sided(level: f64, trials: u32) -> f64 {
    t_quantile(0.5 + level / 2.0, trials)
}

/// Quantile of Student's t with `trials - 1` degrees of freedom.
pub(super) fn t_quantile(p: f64, trials: u32) -> f64 {
    t_quantile_at(p, f64::from(trials.max(2) - 1))
}

/// Quantile of Student's t with so many degrees of freedom, above zero and not always whole.
pub(crate) fn t_quantile_at(p: f64, freedom: f64) -> f64 {
    StudentsT::new(0.0, 1.0, freedom).expect("scale and freedom are positive").inverse_cdf(p)
}

/// The probability that Student's t with so many degrees of freedom is farther from zero than this,
/// to either side.
pub(crate) fn t_probability(t: f64, freedom: f64) -> f64 {
    2.0 * StudentsT::new(0.0, 1.0, freedom).expect("scale and freedom are positive").cdf(-t.abs())
}

/// Trials that bring the half-width of a t-interval on the log scale down to `half_width`, if
/// trials keep differing by the standard deviation `spread`. None when that takes more than
/// [`MOST_TRIALS`].
pub fn trials_needed(spread: f64, level: f64, half_width: f64) -> Option<u32> {
    let enough =
        |trials: u32| t_two_sided(level, trials) * spread / f64::from(trials).sqrt() <= half_width;
    if !(level > 0.0 && level < 1.0 && enough(MOST_TRIALS)) {
        return None;
    }
    // The half-width falls with every trial: bisect.
    let (mut few, mut many) = (1, MOST_TRIALS);
    while many - few > 1 {
        let trials = few + (many - few) / 2;
        if enough(trials) { many = trials } else { few = trials }
    }
    Some(many)
}
