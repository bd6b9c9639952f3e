//! One figure of many hosts: what to expect of the next one, which hosts differ, how many reach a bound, and what an
//! update changed. Pure functions.
//!
//! # The model
//!
//! A host's figure is known with an error of its own, from trial to trial (*within* the host); hosts differ besides
//! (*between* hosts). On the log scale `y = middle + host + error`, where `host` has the variance that is estimated
//! and `error` the one that the host's own interval states: a random-effects summary, as meta-analyses are made.
//!
//! - Each host's own variance is moderated by those of the others, since a dozen trials tell it badly.
//! - The variance between hosts is estimated by restricted maximum likelihood, and its interval by the Q profile
//!   (Viechtbauer, "Confidence intervals for the amount of heterogeneity in meta-analysis", Stat. Med. 26, 2007), with
//!   Welch's F in place of chi-squared, since hosts' own variances are estimates.
//! - The interval of the middle is that of Hartung and Knapp (Stat. Med. 20, 2001), never narrower than if hosts did
//!   not differ.
//! - What to expect of the next host is a prediction interval for its true figure, over all variances between hosts that
//!   what was seen allows, each with its confidence; never narrower than that of the middle. Of one estimate
//!   of that variance it would be too narrow wherever hosts by chance seem not to differ.
//!
//! # Limits
//!
//! All of this supposes that hosts of a kind scatter around one value. Of two kinds in one group the prediction holds
//! neither: that is what grouping by model, kernel or microcode is for. What one machine gives in several runs says
//! nothing of other machines.

mod bound;
mod change;
mod confidence;
mod effects;
mod moderate;
mod outliers;
mod weighed;

pub use bound::{Reached, reached};
pub use change::{between_groups, same_hosts};
pub use effects::{Expected, expected};
pub use outliers::{Outlier, outliers};

use crate::estimate::{Interval, t_quantile_at, t_two_sided};

/// Of fewer hosts nothing is said about others.
pub const FEWEST_HOSTS: usize = 4;

/// The figure of one host, on the log scale.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OnHost {
    /// Its logarithm.
    pub log: f64,
    /// The square of its standard error.
    pub variance: f64,
    /// The degrees of freedom that this is known with.
    pub freedom: f64,
}

/// A figure that does not vary from trial to trial, as simulated ones, would have all the weight.
const LEAST_VARIANCE: f64 = 1e-16;

impl OnHost {
    /// From the figure with its interval, as it was told.
    pub fn of(figure: &Interval) -> Self {
        let trials = figure.trials.max(2);
        let error = figure.log_half_width() / t_two_sided(figure.level, trials);
        let variance = (error * error).max(LEAST_VARIANCE);
        Self { log: figure.value.ln(), variance, freedom: f64::from(trials - 1) }
    }

    /// The bounds of its interval at another level.
    pub fn bounds(&self, level: f64) -> (f64, f64) {
        let half = t_quantile_at(0.5 + level / 2.0, self.freedom) * self.variance.sqrt();
        ((self.log - half).exp(), (self.log + half).exp())
    }
}

/// The level at which each of so many independent intervals must be told so that all hold together (Šidák).
pub fn together(level: f64, how_many: usize) -> f64 {
    level.powf(1.0 / how_many.max(1) as f64)
}

#[cfg(test)]
#[path = "../../tests/inside/hosts.rs"]
mod tests;
