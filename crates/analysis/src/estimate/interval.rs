//! Student's t over trials on the log scale, and the reasons for which there is none.

use ringfence_experiment::histogram::LONGEST;
pub use ringfence_experiment::plan::FEWEST_TRIALS;
use ringfence_experiment::quantity::Quantile;
use ringfence_experiment::sample::LONGEST_WINDOW;
use serde::{Deserialize, Serialize, Serializer};
use statrs::distribution::{ContinuousCDF, StudentsT};

use super::student::{t_two_sided, trials_needed};

/// No figure is printed whose bounds are farther away than this factor.
pub const WIDEST: f64 = 10.0;

const LONGEST_TOLD_S: u64 = LONGEST / 1_000_000_000;

/// An estimate with its interval, or why there is none.
pub type Estimate = Result<Interval, NotEstimable>;

/// A positive figure with the interval that holds it at the stated level.
///
/// The figure is a geometric mean over trials, the interval symmetric on the log scale. All fields
/// are finite, and `0 < low <= value <= high`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Interval {
    /// The point estimate.
    pub value: f64,
    /// Lower bound.
    pub low: f64,
    /// Upper bound.
    pub high: f64,
    /// Confidence level of the two bounds, such as 0.95.
    pub level: f64,
    /// Trials that it rests on.
    pub trials: u32,
    /// Standard deviation of the log figure from trial to trial.
    pub spread: f64,
    /// How much of the interval, to either side on the log scale, is there because latencies are
    /// counted in buckets: of quantiles alone. No number of trials makes it smaller.
    #[serde(default, skip_serializing_if = "is_none")]
    pub slack: f64,
}

fn is_none(slack: &f64) -> bool {
    *slack == 0.0
}

/// Why a figure cannot be had from these samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum NotEstimable {
    /// There are no samples.
    #[error("nothing was measured")]
    NothingMeasured,
    /// Fewer than [`FEWEST_TRIALS`].
    #[error("too few trials: {trials}, and a figure takes at least {}", FEWEST_TRIALS)]
    TooFewTrials {
        /// Trials there were.
        trials: u32,
    },
    /// The interval reaches beyond a factor of [`WIDEST`].
    #[error(
        "not known: the {trials} trials differ so much that the interval reaches beyond a factor \
         of {} to either side; {} would narrow it to that",
        WIDEST,
        needed.map_or("no reasonable number of \
                       trials".into(), |needed| format!("about {needed} trials"))
    )]
    TooWide {
        /// Trials there were.
        trials: u32,
        /// Trials, in all, that would bring it within that factor if they keep differing as they
        /// do; none when absurdly many.
        #[serde(skip_serializing_if = "Option::is_none")]
        needed: Option<u32>,
    },
    /// Whole trials without any work on one side: their ratio is zero, unbounded or undefined.
    #[error(
        "no work was done in whole trials: baseline stalled in {baseline}, arm in {arm} of {of} \
         trials"
    )]
    Stalled {
        /// Trials in which the baseline did no work.
        baseline: u32,
        /// Trials in which the arm did no work.
        arm: u32,
        /// All trials.
        of: u32,
    },
    /// Whole trials without any work, where there is only one side.
    #[error("no work was done in {trials} of {of} trials")]
    NoWork {
        /// Trials without work.
        trials: u32,
        /// All trials.
        of: u32,
    },
    /// A window has no length, negative work, or a number that is none.
    #[error(
        "trial {trial} holds a window that is not a measurement (no length, negative work, or not \
         a number)"
    )]
    InvalidWindow {
        /// The first such trial.
        trial: u32,
    },
    /// Too many windows lasted too long, so that those which are left are no fair choice.
    #[error(
        "this program was kept from running, so that {steps} of {of} steps hold a window of more \
         than {} times the length asked \
         for, or a pause that ended early; with so many left out, the others may mislead; leave it \
         a CPU that no task uses, or \
         let less run on this machine meanwhile; where it does not run as root, root or \
         CAP_SYS_NICE gives it a higher priority",
        LONGEST_WINDOW
    )]
    TooLong {
        /// Steps that are left out.
        steps: u32,
        /// All steps that were measured.
        of: u32,
    },
    /// Fewer latencies than a quantile takes.
    #[error(
        "too few latencies: {quantile} takes about {needed} on each side, and there are {counted}; \
         {} would give them",
        trials.map_or("longer windows".into(), |trials| format!("about {trials} trials, or longer \
            windows,"))
    )]
    TooFewLatencies {
        /// The quantile.
        quantile: Quantile,
        /// Latencies that were counted, on the side that has fewer.
        counted: u64,
        /// How many it takes there.
        needed: u64,
        /// Trials, in all, that would give so many if they keep giving as many as they do; none
        /// when absurdly many.
        #[serde(skip_serializing_if = "Option::is_none")]
        trials: Option<u32>,
    },
    /// Enough latencies, but those beyond the quantile come in some trials and not in others.
    #[error(
        "trials differ: {counted} latencies are enough for {quantile}, but the longest of them \
         come in bursts, in some trials and not in \
         others; {} would narrow it down",
        trials.map_or("no reasonable number of \
                       trials".into(), |trials| format!("about {trials} trials, or longer \
                           windows,"))
    )]
    TrialsDiffer {
        /// The quantile.
        quantile: Quantile,
        /// Latencies that were counted, on the side that has fewer.
        counted: u64,
        /// How many it takes there if they keep coming in such bursts.
        needed: u64,
        /// Trials, in all, that would give so many; none when absurdly many.
        #[serde(skip_serializing_if = "Option::is_none")]
        trials: Option<u32>,
    },
    /// The quantile is as long as the longest latency that is distinguished.
    #[error("{quantile} lies beyond {LONGEST_TOLD_S} s, and what takes longer is counted as one")]
    TooLongToTell {
        /// The quantile.
        quantile: Quantile,
    },
    /// The figure or a bound of it exceeds what a 64-bit number holds.
    #[error("the trials differ too much for the interval to be expressed")]
    OutOfRange,
    /// The confidence level is not strictly between 0 and 1.
    #[error("the confidence level must lie strictly between 0 and 1")]
    InvalidLevel,
}

impl Interval {
    /// The same of a figure that is so many times as large; the factor must be positive and finite.
    pub fn times(self, factor: f64) -> Self {
        Self {
            value: self.value * factor,
            low: self.low * factor,
            high: self.high * factor,
            ..self
        }
    }

    /// From two trials on, however wide.
    pub(super) fn student(logs: &[f64], level: f64) -> Estimate {
        if !(level > 0.0 && level < 1.0) {
            return Err(NotEstimable::InvalidLevel);
        }
        let trials = u32::try_from(logs.len()).map_err(|_| NotEstimable::OutOfRange)?;
        match trials {
            0 => return Err(NotEstimable::NothingMeasured),
            1 => return Err(NotEstimable::TooFewTrials { trials }),
            _ => {}
        }
        let n = f64::from(trials);
        let mean = logs.iter().sum::<f64>() / n;
        let spread = (logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt();
        let half = t_two_sided(level, trials) * spread / n.sqrt();
        let bounds = [mean - half, mean, mean + half].map(f64::exp);
        if bounds.iter().any(|x| !x.is_normal()) || !spread.is_finite() {
            return Err(NotEstimable::OutOfRange);
        }
        let [low, value, high] = bounds;
        Ok(Self { value, low, high, level, trials, spread, slack: 0.0 })
    }

    /// The probability that the figure is above 1, given these trials: Student's t of the log
    /// figure, which is its posterior where nothing is known beforehand of mean and spread
    /// (Jeffreys' prior).
    pub fn probability_above_one(&self) -> f64 {
        if self.spread <= 0.0 {
            return if self.value > 1.0 {
                1.0
            } else if self.value < 1.0 {
                0.0
            } else {
                0.5
            };
        }
        let n = f64::from(self.trials);
        let t = self.value.ln() / (self.spread / n.sqrt());
        StudentsT::new(0.0, 1.0, n - 1.0).map_or(0.5, |posterior| posterior.cdf(t))
    }

    /// Trials, in all, that bring the interval's half-width on the log scale down to this, if
    /// trials keep differing as they do. None when that takes more than
    /// [`MOST_TRIALS`](super::MOST_TRIALS), or when no number of trials does.
    pub fn trials_for(&self, half_width: f64) -> Option<u32> {
        trials_needed(self.spread, self.level, half_width - self.slack)
    }

    /// Half the interval's width on the log scale: 0.01 is close to +-1 %.
    pub fn log_half_width(&self) -> f64 {
        (self.high.ln() - self.low.ln()) / 2.0
    }

    /// Whether the interval holds this figure.
    pub fn contains(&self, figure: f64) -> bool {
        self.low <= figure && figure <= self.high
    }

    /// Whether the interval lies in `1 - margin ..= 1 + margin`.
    pub fn within_margin(&self, margin: f64) -> bool {
        1.0 - margin <= self.low && self.high <= 1.0 + margin
    }
}

/// A figure that is not known, as documents have it.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Unknown {
    /// Why, in words.
    pub unknown: String,
    /// Why, in one word, with the numbers that belong to it.
    #[serde(flatten)]
    pub reason: NotEstimable,
}

/// Writes a figure's fields; or, where there is none, `unknown` with the reason in words, `reason`
/// with it in one word, and the numbers that belong to it. No reader need know which type this is
/// here.
///
/// # Errors
/// Those of the serializer.
pub fn serialize_estimate<T: Serialize, S: Serializer>(
    estimate: &Result<T, NotEstimable>,
    to: S,
) -> Result<S::Ok, S::Error> {
    match estimate {
        Ok(figure) => figure.serialize(to),
        Err(reason) => serialize_unknown(reason, to),
    }
}

/// The same of a reason alone.
///
/// # Errors
/// Those of the serializer.
pub fn serialize_unknown<S: Serializer>(reason: &NotEstimable, to: S) -> Result<S::Ok, S::Error> {
    Unknown { unknown: reason.to_string(), reason: *reason }.serialize(to)
}

/// The same of a figure that need not be there.
///
/// # Errors
/// Those of the serializer.
pub fn serialize_estimate_if_any<T: Serialize, S: Serializer>(
    estimate: &Option<Result<T, NotEstimable>>,
    to: S,
) -> Result<S::Ok, S::Error> {
    match estimate {
        Some(estimate) => serialize_estimate(estimate, to),
        None => to.serialize_none(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64, tolerance: f64) -> bool {
        (a - b).abs() <= tolerance
    }

    // Two-sided critical values as printed in any t table (NIST/SEMATECH e-Handbook, 1.3.6.7.2).
    #[test]
    fn quantiles_match_the_printed_table() {
        for (level, trials, t) in [
            (0.95, 2, 12.706),
            (0.95, 3, 4.303),
            (0.95, 10, 2.262),
            (0.99, 10, 3.250),
            (0.95, 20, 2.093),
            (0.95, 41, 2.021),
            (0.90, 31, 1.697),
            (0.998, 101, 3.174),
        ] {
            assert!(
                close(t_two_sided(level, trials), t, 6e-4),
                "{level} {trials} {}",
                t_two_sided(level, trials)
            );
        }
    }

    // One degree of freedom is Cauchy: tan(pi (p - 1/2)). Two: (2p - 1) / sqrt(2p (1 - p)).
    #[test]
    fn far_tails_match_the_closed_forms() {
        for level in [0.01, 0.5, 0.95, 0.9999] {
            let p = 0.5 + level / 2.0;
            let cauchy = (std::f64::consts::PI * level / 2.0).tan();
            let two = level / (2.0 * p * (1.0 - p)).sqrt();
            assert!(close(t_two_sided(level, 2) / cauchy, 1.0, 1e-6), "{level}");
            assert!(close(t_two_sided(level, 3) / two, 1.0, 1e-6), "{level}");
        }
    }

    // Logs 0.1, 0.2, 0.3: mean 0.2, sd 0.1, half-width 4.302653 * 0.1 / sqrt(3) = 0.2484138.
    #[test]
    fn three_trials_by_hand() {
        let interval = Interval::student(&[0.1, 0.2, 0.3], 0.95).unwrap();
        assert!(close(interval.value, 0.2f64.exp(), 1e-12));
        assert!(close(interval.low, (-0.048_413_8f64).exp(), 1e-6));
        assert!(close(interval.high, 0.448_413_8f64.exp(), 1e-6));
        assert!(close(interval.spread, 0.1, 1e-12));
        assert!(close(interval.log_half_width(), 0.248_413_8, 1e-6));
        assert_eq!(interval.trials, 3);
    }

    // With one degree of freedom Student's t is Cauchy's: 1/2 + atan(t) / pi. Logs 0 and 0.2: t =
    // 1.
    #[test]
    fn a_probability_by_hand() {
        let above = |logs: &[f64]| Interval::student(logs, 0.95).unwrap().probability_above_one();
        assert!(close(above(&[0.0, 0.2]), 0.75, 1e-9));
        assert!(close(above(&[0.0, -0.2]), 0.25, 1e-9));
        assert!(close(above(&[0.1, -0.1]), 0.5, 1e-9));
        assert_eq!([above(&[0.1, 0.1]), above(&[-0.1, -0.1]), above(&[0.0, 0.0])], [1.0, 0.0, 0.5]);
        // The lower bound of a 95 % interval at 1 leaves 2.5 % below it.
        let logs = [0.1, 0.2, 0.3].map(|log| log - 0.2 + 0.248_413_8);
        assert!(close(above(&logs), 0.975, 1e-6));
    }

    #[test]
    fn too_little_is_a_reason() {
        assert_eq!(Interval::over_trials(&[], 0.95), Err(NotEstimable::NothingMeasured));
        assert_eq!(
            Interval::over_trials(&[0.1], 0.95),
            Err(NotEstimable::TooFewTrials { trials: 1 })
        );
        for level in [0.0, 1.0, -1.0, f64::NAN] {
            assert_eq!(Interval::over_trials(&[0.1, 0.2], level), Err(NotEstimable::InvalidLevel));
        }
        assert_eq!(
            Interval::over_trials(&[-700.0, 700.0, 700.0, 700.0], 0.95),
            Err(NotEstimable::OutOfRange)
        );
    }

    #[test]
    fn equal_trials_give_a_point() {
        let interval = Interval::over_trials(&[0.0; 4], 0.95).unwrap();
        assert_eq!((interval.low, interval.value, interval.high), (1.0, 1.0, 1.0));
    }
}
