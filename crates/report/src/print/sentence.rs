//! What a finding says, in a sentence.

use crate::print::unknown::WouldSettle;
use ringfence_analysis::estimate::{Finding, Interval, Verdict};

/// From this factor on a change is printed as a factor instead of a percentage.
const FACTOR_FROM: f64 = 2.0;

/// Digits behind the point, at most.
const MOST_DECIMALS: usize = 6;

/// Such as `slower by 3.2 % [2.9, 3.5]`.
pub fn sentence(finding: &Finding) -> String {
    let Some(interval) = &finding.slowdown else {
        return match &finding.verdict {
            Verdict::NotEstimable(reason) => reason.told(),
            _ => "not estimable".into(),
        };
    };
    match finding.verdict {
        Verdict::Slower => effect(interval, "slower"),
        Verdict::Faster if interval.value <= 1.0 / FACTOR_FROM => {
            let inverse = Interval {
                value: 1.0 / interval.value,
                low: 1.0 / interval.high,
                high: 1.0 / interval.low,
                ..*interval
            };
            effect(&inverse, "faster")
        }
        Verdict::Faster => {
            let mirrored = Interval {
                value: 2.0 - interval.value,
                low: 2.0 - interval.high,
                high: 2.0 - interval.low,
                ..*interval
            };
            effect(&mirrored, "faster")
        }
        Verdict::NoChangeLargerThanMargin => {
            let margin = (finding.margin * 1e5).round() / 1e3;
            format!("no change larger than {margin} % {}", signed(interval))
        }
        Verdict::Undecided { trials_needed } => {
            format!("undecided: {} %; {}", signed(interval), WouldSettle(trials_needed))
        }
        Verdict::NotEstimable(reason) => reason.told(),
    }
}

/// An interval above 1, as a factor or a percentage, with so many decimals that it reads as above
/// 1.
fn effect(change: &Interval, word: &str) -> String {
    let as_factor = change.value >= FACTOR_FROM;
    let (none, show): (f64, fn(f64) -> f64) = if as_factor { (1.0, |x| x) } else { (0.0, percent) };
    let (value, low, high) = (show(change.value), show(change.low), show(change.high));
    let enough = |d: &usize| round(low, *d) > none;
    let start = decimals(high - low);
    let d = (start..MOST_DECIMALS).find(enough).unwrap_or(MOST_DECIMALS);
    if as_factor {
        format!("{value:.d$}x {word} [{low:.d$}, {high:.d$}]")
    } else {
        format!("{word} by {value:.d$} % [{low:.d$}, {high:.d$}]")
    }
}

/// Both bounds as changes in percent, with their signs.
fn signed(interval: &Interval) -> String {
    let (low, high) = (percent(interval.low), percent(interval.high));
    let d = decimals(high - low);
    let bound =
        |x: f64| if round(x, d) == 0.0 { format!("{:.d$}", 0.0) } else { format!("{x:+.d$}") };
    format!("[{}, {}]", bound(low), bound(high))
}

// A hundredfold of the greatest number is none.
fn percent(slowdown: f64) -> f64 {
    ((slowdown - 1.0) * 100.0).min(f64::MAX)
}

/// Decimals that show one significant digit of the half-width.
fn decimals(width: f64) -> usize {
    let half = width / 2.0;
    if half > 0.0 { (-half.log10().floor()).clamp(0.0, 4.0) as usize } else { 1 }
}

fn round(x: f64, decimals: usize) -> f64 {
    let scale = 10f64.powi(decimals as i32);
    (x * scale).round() / scale
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringfence_analysis::estimate::NotEstimable;

    fn said(value: f64, low: f64, high: f64) -> String {
        let interval =
            Interval { value, low, high, level: 0.95, trials: 10, spread: 0.02, slack: 0.0 };
        sentence(&Finding::new(&Ok(interval), 0.01))
    }

    #[test]
    fn small_effects_are_percentages() {
        assert_eq!(said(1.032, 1.029, 1.035), "slower by 3.2 % [2.9, 3.5]");
        assert_eq!(said(0.9, 0.87, 0.93), "faster by 10 % [7, 13]");
        assert_eq!(said(1.9, 1.8, 2.0), "slower by 90 % [80, 100]");
    }

    #[test]
    fn large_effects_are_factors() {
        assert_eq!(said(12.1, 11.8, 12.4), "12.1x slower [11.8, 12.4]");
        assert_eq!(said(0.25, 0.2, 0.3125), "4.0x faster [3.2, 5.0]");
    }

    #[test]
    fn an_effect_never_reads_as_none() {
        assert_eq!(said(1.012, 1.0002, 1.024), "slower by 1.20 % [0.02, 2.40]");
        assert_eq!(said(3.0, 1.04, 9.0), "3.00x slower [1.04, 9.00]");
    }

    #[test]
    fn no_effect_names_the_margin() {
        assert_eq!(said(1.0005, 0.998, 1.003), "no change larger than 1 % [-0.2, +0.3]");
        assert_eq!(said(1.0, 1.0, 1.0), "no change larger than 1 % [0.0, 0.0]");
    }

    #[test]
    fn undecided_says_what_it_takes() {
        // Spread 0.02 at 95 %, half of ln 1.01: 65 trials (t = 1.9977, half-width 0.004956).
        assert_eq!(
            said(1.01, 0.97, 1.05),
            "undecided: [-3, +5] %; about 65 trials would settle it"
        );
        let wide = Interval {
            value: 1.0,
            low: 0.1,
            high: 10.0,
            level: 0.95,
            trials: 3,
            spread: 9.0,
            slack: 0.0,
        };
        let finding = Finding::new(&Ok(wide), 0.01);
        assert_eq!(
            sentence(&finding),
            "undecided: [-90, +900] %; no reasonable number of trials would settle it"
        );
    }

    #[test]
    fn no_figure_says_why() {
        let stalled = NotEstimable::Stalled { baseline: 0, arm: 2, of: 10 };
        assert_eq!(
            sentence(&Finding::new(&Err(stalled), 0.01)),
            "not estimable: no work was done in whole trials: baseline stalled in 0, arm in 2 of \
             10 trials"
        );
    }

    // Whatever the estimators give: what is finite and positive.
    fn interval() -> impl proptest::strategy::Strategy<Value = Interval> {
        use proptest::prelude::*;
        let size = prop_oneof![6 => -3.0..3.0f64, 1 => -700.0..700.0f64];
        (size, prop_oneof![0.0..1.0f64, 0.0..700.0f64], 0.0..1.0f64).prop_map(
            |(low, width, part)| {
                let high = (low + width).min(709.0);
                let [low, value, high] = [low, low + part * (high - low), high].map(f64::exp);
                Interval {
                    value: value.clamp(low, high),
                    low,
                    high,
                    level: 0.95,
                    trials: 10,
                    spread: 0.02,
                    slack: 0.0,
                }
            },
        )
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig {
            failure_persistence: None,
            ..Default::default()
        })]

        #[test]
        fn no_sentence_says_nan(interval in interval(), margin in 0.0..0.5f64) {
            let said = sentence(&Finding::new(&Ok(interval), margin));
            assert!(!said.contains("NaN") && !said.contains("inf"), "{said}");
        }
    }
}
