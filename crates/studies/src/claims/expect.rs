//! What a figure must be for a claim to hold.

use std::fmt;
use std::str::FromStr;

use ringfence_analysis::estimate::Interval;
use ringfence_experiment::Reason;
use serde::{Deserialize, Serialize};

/// What a ratio of two times must be.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(try_from = "String")]
pub enum Expect {
    /// Above one by more than the experiment's margin.
    Longer,
    /// Below one by more than it.
    Shorter,
    /// No farther from one than this share, either way: 0.05 is from 1/1.05 to 1.05.
    Within(f64),
    /// At least this.
    AtLeast(f64),
    /// At most this.
    AtMost(f64),
    /// An effect of half to twice this one, in logarithms, give or take the experiment's margin:
    /// 0.64 is from 0.41 to 0.8.
    About(f64),
}

/// Whether a claim holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "verdict", content = "because")]
pub enum Verdict {
    /// Every figure is as claimed.
    Holds,
    /// Some figure is not.
    DoesNot,
    /// The intervals are too wide to say, or machines differ.
    Undecided,
    /// There are no figures, for this reason.
    NotRun(Reason),
}

impl FromStr for Expect {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "'{text}' is not an expectation: use longer, shorter, within N%, >= N, <= N or \
                 about N"
            )
        };
        let number = |text: &str| match text.trim().parse::<f64>() {
            Ok(number) if number.is_finite() && number > 0.0 => Ok(number),
            _ => Err(wrong()),
        };
        if let Some(rest) = text.strip_prefix("within ") {
            let share = rest.strip_suffix('%').ok_or_else(wrong)?;
            return number(share).map(|percent| Self::Within(percent / 100.0));
        }
        let prefixed = |prefix: &str| text.strip_prefix(prefix);
        match text {
            "longer" => Ok(Self::Longer),
            "shorter" => Ok(Self::Shorter),
            _ => match (prefixed(">= "), prefixed("<= "), prefixed("about ")) {
                (Some(rest), _, _) => number(rest).map(Self::AtLeast),
                (_, Some(rest), _) => number(rest).map(Self::AtMost),
                (_, _, Some(rest)) => number(rest).map(Self::About),
                _ => Err(wrong()),
            },
        }
    }
}

impl TryFrom<String> for Expect {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl fmt::Display for Expect {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Longer => out.write_str("longer"),
            Self::Shorter => out.write_str("shorter"),
            Self::Within(share) => write!(out, "within {:.0} %", share * 100.0),
            Self::AtLeast(least) => write!(out, "at least {least}"),
            Self::AtMost(most) => write!(out, "at most {most}"),
            Self::About(value) => write!(out, "about {value}"),
        }
    }
}

impl Expect {
    /// Whether a figure is so; changes within the experiment's margin are none.
    pub fn verdict(&self, figure: &Interval, margin: f64) -> Verdict {
        let (low, high) = (figure.low, figure.high);
        let decide = |yes: bool, no: bool| match (yes, no) {
            (true, _) => Verdict::Holds,
            (_, true) => Verdict::DoesNot,
            _ => Verdict::Undecided,
        };
        let same = figure.within_margin(margin);
        match *self {
            Self::Longer => decide(low > 1.0 && !same, same || high < 1.0),
            Self::Shorter => decide(high < 1.0 && !same, same || low > 1.0),
            Self::Within(share) => {
                let bounds = 1.0 / (1.0 + share)..=1.0 + share;
                decide(
                    bounds.contains(&low) && bounds.contains(&high),
                    low > *bounds.end() || high < *bounds.start(),
                )
            }
            Self::AtLeast(least) => decide(low >= least, high < least),
            Self::AtMost(most) => decide(high <= most, low > most),
            Self::About(value) => {
                let (half, twice, slack) = (value.ln() / 2.0, value.ln() * 2.0, margin.ln_1p());
                let bounds = half.min(twice) - slack..=half.max(twice) + slack;
                let (low, high) = (low.ln(), high.ln());
                decide(
                    bounds.contains(&low) && bounds.contains(&high),
                    low > *bounds.end() || high < *bounds.start(),
                )
            }
        }
    }

    /// Whether a figure that was published without an interval is so.
    pub fn of_published(&self, ratio: f64, margin: f64) -> Verdict {
        let says = |yes: bool| if yes { Verdict::Holds } else { Verdict::DoesNot };
        match *self {
            Self::Longer => says(ratio > 1.0 + margin),
            Self::Shorter => says(ratio < 1.0 - margin),
            _ => self.verdict(&certain(ratio), margin),
        }
    }
}

/// A figure without any doubt.
pub(crate) fn certain(value: f64) -> Interval {
    Interval { value, low: value, high: value, level: 1.0, trials: 0, spread: 0.0, slack: 0.0 }
}

impl Verdict {
    /// Of several figures that must all be as claimed.
    pub fn all(verdicts: impl IntoIterator<Item = Verdict>) -> Self {
        let mut so_far = Self::Holds;
        for one in verdicts {
            so_far = match (so_far, one) {
                (Self::DoesNot, _) | (_, Self::DoesNot) => return Self::DoesNot,
                (Self::NotRun(why), _) | (_, Self::NotRun(why)) => Self::NotRun(why),
                (Self::Undecided, _) | (_, Self::Undecided) => Self::Undecided,
                (Self::Holds, Self::Holds) => Self::Holds,
            };
        }
        so_far
    }

    /// Whether figures decide it.
    pub fn is_decided(&self) -> bool {
        matches!(self, Self::Holds | Self::DoesNot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(low: f64, high: f64) -> Interval {
        Interval { value: (low * high).sqrt(), low, high, ..certain(1.0) }
    }

    #[test]
    fn intervals_decide_only_where_they_lie_on_one_side() {
        use Verdict::{DoesNot, Holds, Undecided};
        for (expect, low, high, expected) in [
            ("longer", 1.02, 1.1, Holds),
            ("longer", 0.9, 1.1, Undecided),
            ("longer", 0.8, 0.9, DoesNot),
            // A change within the margin is none.
            ("longer", 1.001, 1.002, DoesNot),
            ("shorter", 0.8, 0.9, Holds),
            ("shorter", 0.999, 1.001, DoesNot),
            ("shorter", 0.9, 1.1, Undecided),
            ("within 5%", 0.96, 1.04, Holds),
            ("within 5%", 0.96, 1.2, Undecided),
            ("within 5%", 1.06, 1.2, DoesNot),
            ("within 5%", 0.5, 0.9, DoesNot),
            (">= 2", 2.0, 3.0, Holds),
            (">= 2", 1.9, 3.0, Undecided),
            (">= 2", 1.0, 1.9, DoesNot),
            ("<= 1.5", 1.0, 1.5, Holds),
            ("<= 1.5", 1.4, 1.6, Undecided),
            ("<= 1.5", 1.6, 1.7, DoesNot),
            ("about 3.5", 3.0, 4.0, Holds),
            ("about 3.5", 20.0, 30.0, DoesNot),
            ("about 3.5", 0.3, 0.4, DoesNot),
            ("about 3.5", 0.5, 4.0, Undecided),
            // Half the effect and less is not it, however wide the interval.
            ("about 0.665", 0.83, 0.973, DoesNot),
            ("about 0.665", 0.82, 0.973, Undecided),
        ] {
            let verdict = expect.parse::<Expect>().unwrap().verdict(&interval(low, high), 0.01);
            assert_eq!(verdict, expected, "{expect} [{low}, {high}]");
        }
    }

    #[test]
    fn published_figures_have_no_interval_and_are_never_undecided() {
        for (expect, ratio, holds) in [
            ("longer", 1.02, true),
            ("longer", 1.005, false),
            ("shorter", 0.9, true),
            ("shorter", 1.0, false),
            ("within 5%", 1.04, true),
            ("within 5%", 1.06, false),
            ("about 3.5", 3.6, true),
            ("about 3.5", 1.0, false),
        ] {
            let expected = if holds { Verdict::Holds } else { Verdict::DoesNot };
            assert_eq!(
                expect.parse::<Expect>().unwrap().of_published(ratio, 0.01),
                expected,
                "{expect} {ratio}"
            );
        }
    }

    #[test]
    fn one_figure_that_is_not_so_outweighs_all_others() {
        let not_run = || Verdict::NotRun("of this".into());
        assert_eq!(Verdict::all([Verdict::Holds, not_run(), Verdict::DoesNot]), Verdict::DoesNot);
        assert_eq!(Verdict::all([Verdict::Undecided, not_run()]), not_run());
        assert_eq!(Verdict::all([Verdict::Holds, Verdict::Undecided]), Verdict::Undecided);
        assert_eq!(Verdict::all([Verdict::Holds, Verdict::Holds]), Verdict::Holds);
    }

    #[test]
    fn what_is_no_expectation_is_refused() {
        for text in ["", "faster", "within 5", "within x%", ">= x", ">= -1", "about", "<= inf"] {
            assert!(text.parse::<Expect>().unwrap_err().contains("use longer"), "{text}");
        }
    }
}
