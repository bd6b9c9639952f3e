//! Figures without an interval.

use serde::Serialize;

use super::NotEstimable;

/// A figure where trials differ too much for an interval, with the range over trials. It is no
/// basis for a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Observed {
    /// The figure over all trials.
    pub value: f64,
    /// That of the trial with the least; at most the figure.
    pub low: f64,
    /// That of the trial with the most; at least the figure.
    pub high: f64,
    /// Trials that have one.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub trials: u32,
}

impl Observed {
    /// From the log figure over all trials and that of each; `None` where there is none, or where
    /// it is not a finite number.
    pub fn new(all: f64, trials: &[f64]) -> Option<Self> {
        let low = trials.iter().copied().fold(f64::INFINITY, f64::min);
        let high = trials.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let [value, low, high] = [all, low.min(all), high.max(all)].map(f64::exp);
        let finite = !trials.is_empty() && [value, low, high].iter().all(|x| x.is_normal());
        finite.then_some(Self { value, low, high, trials: trials.len() as u32 })
    }

    /// Of log figures whose mean is the figure, as of mean times.
    pub fn of_mean(logs: &[f64]) -> Option<Self> {
        Self::new(logs.iter().sum::<f64>() / logs.len().max(1) as f64, logs)
    }
}

impl NotEstimable {
    /// Whether there is a figure all the same, without an interval: trials differ, or a quantile of
    /// many latencies comes from few trials.
    pub fn is_observed(&self) -> bool {
        matches!(self, Self::TrialsDiffer { .. } | Self::TooWide { .. } | Self::TooFewTrials { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_range_is_that_over_trials() {
        let found = Observed::of_mean(&[2f64.ln(), 8f64.ln()]).unwrap();
        let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
        assert!(
            near(found.value, 4.0) && near(found.low, 2.0) && near(found.high, 8.0),
            "{found:?}"
        );
        assert_eq!(
            (found.trials, Observed::of_mean(&[]), Observed::new(800.0, &[1.0])),
            (2, None, None)
        );
    }
}
