//! What a finding says, in a sentence.

use ringfence_analysis::estimate::{Finding, Interval, Verdict, WouldSettle};

/// From this factor on a change is told as a factor instead of a percentage.
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

/// An interval above 1, as a factor or a percentage, with so many decimals that it reads as above 1.
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
    let bound = |x: f64| if round(x, d) == 0.0 { format!("{:.d$}", 0.0) } else { format!("{x:+.d$}") };
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
#[path = "../tests/inside/sentence.rs"]
mod tests;
