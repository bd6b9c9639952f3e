//! What a figure requires.
//!
//! There is a figure where two things hold; each keeps noise from being read as an answer:
//!
//! - it rests on [`FEWEST_TRIALS`] trials or more. Two trials know their spread so badly that
//!   Student's t asks for 9 standard deviations to either side (at 95 %); three for 2.5; four for
//!   1.6. And trials that take one of two values, which is common (see [`super::modes`]), look all
//!   alike in every second experiment of two trials.
//! - its interval reaches no farther than a factor of [`WIDEST`] to either side.
//!
//! All estimators of this module keep to it, so that whatever prints, compares or concludes does,
//! too.

use super::{Estimate, FEWEST_TRIALS, Interval, NotEstimable, WIDEST};

impl Interval {
    /// Student's t-interval for the mean of independent log figures, one per trial,
    /// back-transformed.
    ///
    /// # Errors
    /// Fewer than [`FEWEST_TRIALS`](super::FEWEST_TRIALS) trials, an interval wider than
    /// [`WIDEST`](super::WIDEST), a level outside of 0..1, trials too far apart to be expressed.
    pub fn over_trials(logs: &[f64], level: f64) -> Estimate {
        narrow(Self::student(logs, level)?)
    }

    /// The same, wider by so much to either side on the log scale, which no number of trials makes
    /// smaller.
    ///
    /// # Errors
    /// An interval wider than [`WIDEST`](super::WIDEST).
    pub fn widened(self, slack: f64) -> Estimate {
        let (low, high) = (self.low * (-slack).exp(), self.high * slack.exp());
        if !low.is_normal() || !high.is_normal() {
            return Err(NotEstimable::OutOfRange);
        }
        narrow(Self { low, high, slack: self.slack + slack, ..self })
    }
}

/// Refuses too few trials, and an interval that is too wide.
///
/// # Errors
/// Which of both it is, with the number of trials that it would take.
pub(super) fn narrow(interval: Interval) -> Estimate {
    enough(interval.trials)?;
    // A hair's breadth for what exp and ln lose.
    if interval.log_half_width() <= WIDEST.ln() + 1e-9 {
        return Ok(interval);
    }
    let needed = interval.trials_for(WIDEST.ln());
    Err(NotEstimable::TooWide {
        trials: interval.trials,
        needed: needed.map(|needed| needed.max(interval.trials + 1)),
    })
}

/// Refuses fewer than [`FEWEST_TRIALS`].
pub(super) fn enough(trials: u32) -> Result<(), NotEstimable> {
    match trials {
        0 => Err(NotEstimable::NothingMeasured),
        trials if trials < FEWEST_TRIALS => Err(NotEstimable::TooFewTrials { trials }),
        _ => Ok(()),
    }
}

impl NotEstimable {
    /// What stands where the figure would: `too few trials: ...`, `not known: ...`, or `not
    /// estimable: ...`, with what it would take where more trials would help.
    pub fn told(&self) -> String {
        match self {
            Self::TooFewTrials { .. }
            | Self::TooFewLatencies { .. }
            | Self::TrialsDiffer { .. }
            | Self::TooWide { .. } => self.to_string(),
            _ => format!("not estimable: {self}"),
        }
    }

    /// Of several reasons that which takes the most trials: what serves it serves the others, too.
    pub fn hardest(reasons: &[Self]) -> Option<&Self> {
        reasons.iter().max_by_key(|reason| match reason {
            Self::TooWide { needed, .. } => needed.unwrap_or(u32::MAX),
            Self::TooFewLatencies { trials, .. } | Self::TrialsDiffer { trials, .. } => {
                trials.unwrap_or(u32::MAX)
            }
            _ => 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_few_trials_are_no_figure_and_say_how_many_it_takes() {
        for trials in 1..FEWEST_TRIALS {
            let logs = vec![0.1; trials as usize];
            let reason = Interval::over_trials(&logs, 0.95).unwrap_err();
            assert_eq!(reason, NotEstimable::TooFewTrials { trials });
            assert!(
                reason.told().starts_with("too few trials: ")
                    && reason.told().contains("at least 4")
            );
        }
        assert!(Interval::over_trials(&[0.1; FEWEST_TRIALS as usize], 0.95).is_ok());
    }

    // Four trials at 95 %: t = 3.182, half-width 1.591 spreads; ln 10 = 2.303 is reached at a
    // spread of 1.447.
    #[test]
    fn an_interval_beyond_tenfold_is_not_known_and_says_what_it_takes() {
        let scattered = |spread: f64| [-1.5, -0.5, 0.5, 1.5].map(|at| at * spread / 1.290_994_4);
        let narrow = Interval::over_trials(&scattered(1.44), 0.95).unwrap();
        assert!((narrow.spread - 1.44).abs() < 1e-6 && narrow.high < 10.0);
        let wide = Interval::over_trials(&scattered(2.0), 0.95).unwrap_err();
        // t(5) = 2.571 gives 2.099 with six trials; t(4) = 2.776 gives 2.483 with five.
        assert_eq!(wide, NotEstimable::TooWide { trials: 4, needed: Some(6) });
        assert!(wide.told().starts_with("not known: ") && wide.told().contains("about 6 trials"));
        let few = NotEstimable::TooFewTrials { trials: 2 };
        assert_eq!(NotEstimable::hardest(&[few, wide, few]), Some(&wide));
        let hopeless = Interval::over_trials(&scattered(300.0), 0.95).unwrap_err();
        assert_eq!(hopeless, NotEstimable::TooWide { trials: 4, needed: None });
        assert!(hopeless.told().contains("no reasonable number of trials"));
    }

    #[test]
    fn other_reasons_are_not_estimable() {
        let reason = NotEstimable::Stalled { baseline: 0, arm: 1, of: 10 };
        assert!(reason.told().starts_with("not estimable: no work"));
    }
}
