//! Figures as people read them: with their interval, and with as many digits as it allows.
//!
//! The last digit shown is worth at most half of the interval's half-width (`24.3 [23.9, 24.8]`,
//! but `24.30 [24.15, 24.45]`), and both bounds have as many decimals as the figure. However narrow
//! the interval, no decimal follows a figure's fourth digit, nor the second of a change in percent:
//! simulated intervals may have hardly a width. A figure that is not a number is shown as
//! [`NO_FIGURE`]; `NaN` and `inf` appear nowhere.

mod digits;
#[cfg(test)]
#[path = "../../tests/inside/numbers.rs"]
mod tests;
mod unbroken;

use std::fmt;
use std::time::Duration;

use ringfence_analysis::estimate::{Difference, Estimate, Interval, Observed};

pub use unbroken::{NO_BREAK, unbroken};

use digits::{by_width, decimals, number, rounded, scientific, signed};

/// Stands for a figure that is not there.
pub const NO_FIGURE: &str = "-";

/// From this factor on a slowdown is told as a factor instead of a percentage.
const FACTOR_FROM: f64 = 2.0;

/// Below this factor a speed-up is told as a factor: percentages would crowd below -100 %.
const FACTOR_BELOW: f64 = 0.1;

/// Decimals of a percentage, at most: a change of less than 0.01 % reads as none, whatever its interval.
const PERCENT_DECIMALS: usize = 2;

/// A figure and its interval, apart so that tables can align them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Figure {
    /// With its unit: `24.3 ns`.
    pub value: String,
    /// `[23.9, 24.8]`, in the same unit; empty where there is none.
    pub interval: String,
}

impl Figure {
    fn none() -> Self {
        Self { value: NO_FIGURE.into(), interval: String::new() }
    }

    /// `unit` follows the figure as it is, with its space if it wants one.
    fn of([value, low, high]: [String; 3], unit: &str) -> Self {
        Self { value: format!("{value}{unit}"), interval: format!("[{low}, {high}]") }
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{} {}", self.value, self.interval).trim_end().replace("  ", " "))
    }
}

/// A time in ns: `24.3 ns [23.9, 24.8]`, from 10 us on in us, ms or s.
pub fn ns_figure(ns: &Interval) -> Figure {
    let units = [(1e4, 1.0, " ns"), (1e7, 1e3, " us"), (1e10, 1e6, " ms"), (f64::INFINITY, 1e9, " s")];
    in_units(bounds(ns), &units)
}

/// As [`ns_figure`], in one piece.
pub fn ns_interval(ns: &Interval) -> String {
    ns_figure(ns).to_string()
}

/// As [`ns_interval`]; where there is no interval, the reason.
pub fn ns_estimate(ns: &Estimate) -> String {
    or_reason(ns, ns_interval)
}

/// The throughput of work that takes so many ns per unit, each unit being `bytes`:
/// `2.63 GB/s [2.58, 2.68]`, in decimal units.
pub fn throughput_figure(bytes: u64, ns_per_unit: &Interval) -> Figure {
    let per_s = |ns: f64| bytes as f64 / ns * 1e9;
    let [value, low, high] = bounds(ns_per_unit);
    in_units([per_s(value), per_s(high), per_s(low)], &BYTE_RATES)
}

/// As [`throughput_figure`], in one piece.
pub fn throughput_interval(bytes: u64, ns_per_unit: &Interval) -> String {
    throughput_figure(bytes, ns_per_unit).to_string()
}

/// A slowdown: `12.1x [11.8, 12.4]` where it is a factor of 2 or more (or below 0.1), else the
/// change of time in percent, `+3.2 % [+2.9, +3.5]`. Bounds that lie on one side of no change read
/// so, from 0.01 % on.
pub fn slowdown_figure(slowdown: &Interval) -> Figure {
    let figures = bounds(slowdown);
    let [value, low, high] = figures;
    if figures.iter().any(|x| !x.is_finite() || *x < 0.0) {
        return Figure::none();
    }
    let factor = !(FACTOR_BELOW..FACTOR_FROM).contains(&value);
    let (none, figures) = if factor { (1.0, figures) } else { (0.0, figures.map(|x| (x - 1.0) * 100.0)) };
    if figures.iter().any(|x| x.abs() >= digits::SCIENTIFIC_FROM) {
        let [value, low, high] = bounds(slowdown);
        return Figure::of(scientific([value, low, high]), "x");
    }
    let reads_as_none = |d: usize| {
        (low > 1.0 && rounded(figures[1], d) <= none)
            || (high < 1.0 && rounded(figures[2], d) >= none)
            // No time at all is not a slowdown either.
            || (factor && low > 0.0 && rounded(low, d) <= 0.0)
    };
    let most = if factor { digits::MOST_DECIMALS } else { PERCENT_DECIMALS };
    let start = if factor { decimals(figures) } else { by_width(figures).min(most) };
    let d = (start..most).find(|d| !reads_as_none(*d)).unwrap_or(most);
    if factor {
        Figure::of(figures.map(|x| number(x, d)), "x")
    } else {
        Figure::of(figures.map(|x| signed(x, d)), " %")
    }
}

/// A bound of a slowdown by itself: `+15.1 %`, `8.3x`.
pub fn change(slowdown: f64) -> String {
    if !slowdown.is_finite() || slowdown < 0.0 {
        return NO_FIGURE.into();
    }
    if (FACTOR_BELOW..FACTOR_FROM).contains(&slowdown) {
        return format!("{} %", signed((slowdown - 1.0) * 100.0, 1));
    }
    plain(slowdown, &[(f64::INFINITY, 1.0, "x")])
}

/// As [`slowdown_figure`], in one piece.
pub fn slowdown(slowdown: &Interval) -> String {
    slowdown_figure(slowdown).to_string()
}

/// As [`slowdown`]; where there is no interval, the reason.
pub fn slowdown_estimate(estimate: &Estimate) -> String {
    or_reason(estimate, slowdown)
}

/// A time in ns without an interval, and its range over trials: `~4.00 ms`, `(210 us to 4.20 ms)`.
pub fn ns_observed(observed: &Observed) -> Figure {
    without_interval(observed, ns)
}

/// The same of a slowdown: `~8.3x`, `(+15.1 % to 20.4x)`.
pub fn slowdown_observed(observed: &Observed) -> Figure {
    without_interval(observed, change)
}

fn without_interval(observed: &Observed, show: fn(f64) -> String) -> Figure {
    let Observed { value, low, high, trials } = *observed;
    let range = format!("({} to {})", show(low), show(high));
    Figure { value: format!("~{}", show(value)), interval: if trials > 1 { range } else { String::new() } }
}

/// A data rate without an interval: `3.41 GB/s`, in decimal units.
pub fn bytes_per_s(rate: f64) -> String {
    plain(rate, &BYTE_RATES)
}

/// The same with its interval: `3.41 GB/s [3.38, 3.44]`.
pub fn bytes_per_s_interval(rate: &Interval) -> String {
    in_units(bounds(rate), &BYTE_RATES).to_string()
}

/// A rate of other work without an interval: `41.2 M loads/s`; `unit` is in the plural.
pub fn units_per_s(rate: f64, unit: &str) -> String {
    let steps = [(1e4, 1.0, " "), (1e6, 1e3, " k "), (1e9, 1e6, " M "), (f64::INFINITY, 1e9, " G ")];
    let text = plain(rate, &steps);
    if text == NO_FIGURE { text } else { format!("{text}{unit}/s") }
}

/// A time without an interval, three digits: `82 ns`, `1.25 us`, `39.5 s`.
pub fn ns(ns: f64) -> String {
    plain(ns, &[(1e3, 1.0, " ns"), (1e6, 1e3, " us"), (1e9, 1e6, " ms"), (f64::INFINITY, 1e9, " s")])
}

/// A length of time as one says it: `850 ms`, `12.3 s`, `1 min 20 s`, `2 h 5 min`, `3 d 4 h`.
pub fn duration(time: Duration) -> String {
    // Rounded first: 59.96 s is 1 min, not 60.0 s.
    let tenths = (time.as_secs_f64() * 10.0).round();
    if tenths < 600.0 {
        return match time.as_nanos() {
            0 => "0 s".into(),
            nanos if nanos < 999_500_000 => ns(nanos as f64),
            _ => format!("{:.1} s", tenths / 10.0),
        };
    }
    let seconds = time.as_secs_f64().round() as u64;
    let two = |large: u64, name: &str, small: u64, small_name: &str| match small {
        0 => format!("{large} {name}"),
        _ => format!("{large} {name} {small} {small_name}"),
    };
    let minutes = (seconds + 30) / 60;
    let hours = (seconds + 1800) / 3600;
    match seconds {
        0..3_600 => two(seconds / 60, "min", seconds % 60, "s"),
        _ if minutes < 1_440 => two(minutes / 60, "h", minutes % 60, "min"),
        _ => two(hours / 24, "d", hours % 24, "h"),
    }
}

/// A count, its digits in groups of three from five digits on: `1234`, `12 345`.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    if digits.len() < 5 {
        return digits;
    }
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// A difference of two costs in ns, with its interval and its signs: `+7.8 [+7.1, +8.6]`.
pub fn difference(difference: &Difference) -> String {
    let half = (difference.high - difference.low) / 2.0;
    let digits = if half < 1.0 { 1 } else { 0 };
    format!("{:+.digits$} [{:+.digits$}, {:+.digits$}]", difference.ns, difference.low, difference.high)
        .replace("-0 ", "0 ")
        .replace("-0.0 ", "0.0 ")
}

/// Two digits or so: the precision of a precision.
pub fn coarse(share: f64) -> String {
    match share {
        s if s >= 10.0 => "more than 1000 %".into(),
        s if s >= 0.1 => format!("{:.0} %", s * 100.0),
        s if s >= 0.01 => format!("{:.1} %", s * 100.0),
        s => percent(s),
    }
}

/// A share of a whole with at most two decimals: `95 %`, `98.33 %`, `0.4 %`.
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if !percent.is_finite() {
        return NO_FIGURE.into();
    }
    if percent > 0.0 && percent < 0.005 {
        return "< 0.01 %".into();
    }
    let text = number(percent, 2);
    format!("{} %", text.trim_end_matches('0').trim_end_matches('.'))
}

/// Upper ends, divisors and names of units.
type Units<'a> = [(f64, f64, &'a str)];

const BYTE_RATES: [(f64, f64, &str); 4] =
    [(1e3, 1.0, " B/s"), (1e6, 1e3, " kB/s"), (1e9, 1e6, " MB/s"), (f64::INFINITY, 1e9, " GB/s")];

fn bounds(interval: &Interval) -> [f64; 3] {
    [interval.value, interval.low, interval.high]
}

fn or_reason(estimate: &Estimate, show: fn(&Interval) -> String) -> String {
    match estimate {
        Ok(interval) => show(interval),
        Err(reason) => reason.told(),
    }
}

fn in_units(figures: [f64; 3], units: &Units) -> Figure {
    if figures.iter().any(|x| !x.is_finite() || *x < 0.0) {
        return Figure::none();
    }
    let (divisor, name) = unit_of(figures[0], units);
    let scaled = figures.map(|x| x / divisor);
    let fits = scaled.iter().all(|x| *x < digits::SCIENTIFIC_FROM)
        && (scaled[0] >= digits::SCIENTIFIC_BELOW || scaled[0] == 0.0);
    let d = decimals(scaled);
    Figure::of(if fits { scaled.map(|x| number(x, d)) } else { scientific(scaled) }, name)
}

fn plain(figure: f64, units: &Units) -> String {
    if !figure.is_finite() || figure < 0.0 {
        return NO_FIGURE.into();
    }
    let (mut divisor, mut name) = unit_of(figure, units);
    // Rounding may reach the next unit: 999.9 MB/s is 1.00 GB/s.
    if let Some((_, next, next_name)) = units.iter().find(|(_, one, _)| *one > divisor)
        && rounded(figure / divisor, digits::for_three(figure / divisor)) * divisor >= *next
        && unit_of(*next, units).0 == *next
    {
        (divisor, name) = (*next, *next_name);
    }
    let scaled = figure / divisor;
    if scaled >= digits::SCIENTIFIC_FROM || (scaled < digits::SCIENTIFIC_BELOW && scaled > 0.0) {
        return format!("{scaled:.2e}{name}");
    }
    let text = number(scaled, digits::for_three(scaled));
    format!("{text}{name}")
}

fn unit_of<'a>(figure: f64, units: &Units<'a>) -> (f64, &'a str) {
    let (_, divisor, name) = units.iter().find(|(end, ..)| figure < *end).unwrap_or(&units[units.len() - 1]);
    (*divisor, name)
}
