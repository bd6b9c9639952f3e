//! What stands where a figure is not known.

use std::fmt;

use ringfence_analysis::estimate::NotEstimable;

/// Words for a figure that is not known, besides those of the error itself.
pub(crate) trait Unknown {
    /// Why there is none, and what it would take, after "not known".
    fn why(&self) -> String;

    /// The same in a word or three, for the cells of tables.
    fn short(&self) -> &'static str;
}

impl Unknown for NotEstimable {
    fn why(&self) -> String {
        let text = self.to_string();
        text.strip_prefix("not known: ").map_or(text.clone(), str::to_owned)
    }

    fn short(&self) -> &'static str {
        match self {
            Self::NothingMeasured => "not measured",
            Self::TooFewTrials { .. } => "too few trials",
            Self::TooWide { .. } | Self::OutOfRange => "not known",
            Self::Stalled { baseline: 0, .. } => "stands still",
            Self::Stalled { .. } | Self::NoWork { .. } => "no work done",
            Self::TooFewLatencies { .. } => "too few latencies",
            Self::TrialsDiffer { .. } => "trials differ",
            Self::TooLongToTell { .. } => "too long to tell",
            Self::TooLong { .. } => "windows too long",
            Self::InvalidWindow { .. } | Self::InvalidLevel => "no figure",
        }
    }
}

/// What it would take to settle a matter that is undecided: `about 120 trials would settle it`.
pub(crate) struct WouldSettle(
    /// Trials in all, as [`trials_needed`](ringfence_analysis::estimate::trials_needed) tells;
    /// none where they would be absurdly many.
    pub(crate) Option<u32>,
);

impl fmt::Display for WouldSettle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(trials) => write!(f, "about {} trials would settle it", two_digits(trials)),
            None => write!(f, "no reasonable number of trials would settle it"),
        }
    }
}

// Rounded up: the spread that it follows from is not known any better.
fn two_digits(number: u32) -> u32 {
    let unit = 10u32.pow(number.max(1).ilog10().saturating_sub(1));
    number.div_ceil(unit).saturating_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_has_a_word_or_three_and_a_sentence_the_rest() {
        let wide = NotEstimable::TooWide { trials: 4, needed: Some(6) };
        assert_eq!(wide.short(), "not known");
        assert!(wide.why().starts_with("the 4 trials differ so much"));
        assert_eq!(NotEstimable::TooFewTrials { trials: 2 }.short(), "too few trials");
        let stalled = NotEstimable::Stalled { baseline: 0, arm: 1, of: 10 };
        assert_eq!(stalled.short(), "stands still");
    }

    #[test]
    fn what_would_settle_it_is_an_estimate_of_two_digits() {
        for (trials, rounded) in
            [(7, "7"), (65, "65"), (143, "150"), (89_258, "90000"), (u32::MAX, "4294967295")]
        {
            assert_eq!(
                WouldSettle(Some(trials)).to_string(),
                format!("about {rounded} trials would settle it")
            );
        }
    }
}
