//! What an interval says: slower, faster, no change that matters, or not yet.

use serde::Serialize;

use super::{Estimate, Interval, NotEstimable, serialize_estimate};

/// What a slowdown's interval says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The interval lies above 1.
    Slower,
    /// The interval lies below 1.
    Faster,
    /// The interval holds 1 and lies within the margin (a test of equivalence, after Schuirmann
    /// 1987).
    NoChangeLargerThanMargin,
    /// The interval holds 1 and reaches beyond the margin: nothing can be said yet.
    Undecided {
        /// Trials, in all, that would settle it if the trials' spread stays what it was; none when
        /// absurdly many.
        trials_needed: Option<u32>,
    },
    /// There is no interval.
    NotEstimable(NotEstimable),
}

/// A verdict with the interval that it rests on.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(with = "Written"))]
#[serde(into = "Written")]
pub struct Finding {
    /// What the interval says.
    pub verdict: Verdict,
    /// The slowdown; none where it is not estimable.
    pub slowdown: Option<Interval>,
    /// Relative changes up to this do not matter: 0.01 is 1 %.
    pub margin: f64,
}

impl Finding {
    /// Judges a slowdown against a margin.
    pub fn new(slowdown: &Estimate, margin: f64) -> Self {
        let verdict = match slowdown {
            Err(reason) => Verdict::NotEstimable(*reason),
            Ok(interval) if interval.low > 1.0 => Verdict::Slower,
            Ok(interval) if interval.high < 1.0 => Verdict::Faster,
            Ok(interval) if interval.within_margin(margin) => Verdict::NoChangeLargerThanMargin,
            Ok(interval) => Verdict::Undecided {
                // Half a margin is enough whatever the estimate: such an interval either leaves out
                // 1, or holds it and cannot reach beyond the margin. A whole margin would settle
                // next to nothing.
                trials_needed: interval
                    .trials_for(margin.ln_1p() / 2.0)
                    .map(|trials| trials.max(interval.trials + 1)),
            },
        };
        Self { verdict, slowdown: slowdown.ok(), margin }
    }
}

impl Verdict {
    /// In one word, as in JSON.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Slower => "slower",
            Self::Faster => "faster",
            Self::NoChangeLargerThanMargin => "no_change_larger_than_margin",
            Self::Undecided { .. } => "undecided",
            Self::NotEstimable(_) => "not_estimable",
        }
    }
}

// As a document has it.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct Written {
    /// What the interval says: it lies above 1 (`slower`) or below 1 (`faster`), it holds 1 and
    /// lies within the margin, or it holds 1 and reaches beyond (`undecided`).
    #[cfg_attr(
        feature = "schema",
        schemars(extend("enum" = [
            "slower", "faster", "no_change_larger_than_margin", "undecided", "not_estimable",
        ]))
    )]
    verdict: &'static str,
    /// The slowdown, or why there is none.
    #[serde(serialize_with = "serialize_estimate")]
    slowdown: Estimate,
    /// Relative changes up to this do not matter: 0.01 is 1 %.
    margin: f64,
    /// Trials, in all, that would settle what is undecided; null where it is settled, or when
    /// absurdly many.
    trials_needed: Option<u32>,
}

impl From<Finding> for Written {
    fn from(finding: Finding) -> Self {
        let (trials_needed, reason) = match finding.verdict {
            Verdict::Undecided { trials_needed } => (trials_needed, None),
            Verdict::NotEstimable(reason) => (None, Some(reason)),
            _ => (None, None),
        };
        let slowdown = finding.slowdown.ok_or(reason.unwrap_or(NotEstimable::NothingMeasured));
        Self { verdict: finding.verdict.word(), slowdown, margin: finding.margin, trials_needed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimate::trials_needed;

    fn interval(low: f64, high: f64) -> Estimate {
        Ok(Interval {
            value: (low * high).sqrt(),
            low,
            high,
            level: 0.95,
            trials: 10,
            spread: 0.02,
            slack: 0.0,
        })
    }

    fn verdict(low: f64, high: f64) -> Verdict {
        Finding::new(&interval(low, high), 0.01).verdict
    }

    #[test]
    fn an_interval_is_judged_against_one_and_the_margin() {
        assert_eq!(verdict(1.001, 1.002), Verdict::Slower);
        assert_eq!(verdict(0.8, 0.99), Verdict::Faster);
        assert_eq!(verdict(0.995, 1.009), Verdict::NoChangeLargerThanMargin);
        assert!(matches!(verdict(0.995, 1.011), Verdict::Undecided { .. }));
        assert!(matches!(verdict(0.5, 1.0), Verdict::Undecided { .. }));
        let finding = Finding::new(&Err(NotEstimable::NothingMeasured), 0.01);
        assert_eq!(finding.verdict, Verdict::NotEstimable(NotEstimable::NothingMeasured));
    }

    // By hand: 2.0 sd, half-width 1.0 at 95 %: t(17) = 2.110 gives 2.110 * 2 / sqrt 18 = 0.995, and
    // t(16) = 2.120 gives 2.120 * 2 / sqrt 17 = 1.028.
    #[test]
    fn trials_needed_by_hand() {
        assert_eq!(trials_needed(2.0, 0.95, 1.0), Some(18));
        assert_eq!(trials_needed(0.0, 0.95, 1.0), Some(2));
        assert_eq!(trials_needed(1.0, 0.95, 0.001), None);
        assert_eq!(trials_needed(1.0, 0.95, 0.0), None);
        assert_eq!(trials_needed(f64::NAN, 0.95, 1.0), None);
        assert_eq!(trials_needed(1.0, 1.0, 1.0), None);
    }

    #[test]
    fn what_buckets_leave_open_no_trials_settle() {
        let Ok(interval) = interval(0.85, 1.15) else { panic!() };
        let needed =
            |slack| Finding::new(&Ok(Interval { slack, spread: 0.1, ..interval }), 0.1).verdict;
        let Verdict::Undecided { trials_needed: Some(without) } = needed(0.0) else { panic!() };
        let Verdict::Undecided { trials_needed: Some(with) } = needed(0.03) else { panic!() };
        assert!(with > without, "{with} {without}");
        assert_eq!(needed(0.05), Verdict::Undecided { trials_needed: None });
    }

    #[test]
    fn half_a_margin_always_settles() {
        let half = 0.01f64.ln_1p() / 2.0;
        for shift in -300..=300 {
            let log = f64::from(shift) * 1e-4;
            let settled = verdict((log - half).exp(), (log + half).exp());
            assert!(!matches!(settled, Verdict::Undecided { .. }), "{log}");
        }
    }

    #[test]
    fn the_verdict_is_json() {
        let finding = Finding::new(&interval(0.9, 1.2), 0.01);
        let json = serde_json::to_value(finding).unwrap();
        assert_eq!(json["verdict"], "undecided");
        assert!(json["trials_needed"].is_u64());
        assert_eq!(json["slowdown"]["trials"], 10);
        let json =
            serde_json::to_value(Finding::new(&Err(NotEstimable::OutOfRange), 0.01)).unwrap();
        assert_eq!(
            (&json["verdict"], &json["trials_needed"]),
            (&"not_estimable".into(), &serde_json::Value::Null)
        );
        assert_eq!(json["slowdown"]["reason"], "out_of_range");
        assert!(json["slowdown"]["unknown"].as_str().unwrap().starts_with("the trials differ"));
    }
}
