//! Figures as people read them: with their interval, and with as many digits as it allows.
//!
//! The last digit shown is worth at most half of the interval's half-width (`24.3 [23.9, 24.8]`,
//! but `24.30 [24.15, 24.45]`), and both bounds have as many decimals as the figure. However narrow
//! the interval, no decimal follows a figure's fourth digit, nor the second of a change in percent:
//! simulated intervals may have hardly a width. A figure that is not a number is shown as
//! [`NO_FIGURE`]; `NaN` and `inf` appear nowhere.

mod digits;
#[cfg(test)]
mod tests {
    //! Every figure that a measurement may bring, and those that it should not.

    use std::time::Duration;

    use ringfence_analysis::estimate::{Interval, NotEstimable};

    use super::*;

    fn interval(value: f64, low: f64, high: f64) -> Interval {
        Interval { value, low, high, level: 0.95, trials: 10, spread: 0.02, slack: 0.0 }
    }

    #[test]
    fn the_interval_decides_the_digits() {
        for ((value, low, high), text) in [
            ((24.31, 23.87, 24.79), "24.3 ns [23.9, 24.8]"),
            ((24.31, 24.15, 24.46), "24.31 ns [24.15, 24.46]"),
            ((24.31, 20.0, 28.0), "24 ns [20, 28]"),
            ((241.0, 140.0, 320.0), "241 ns [140, 320]"),
            ((0.0523, 0.0521, 0.0525), "0.0523 ns [0.0521, 0.0525]"),
            ((3.0, 3.0, 3.0), "3.00 ns [3.00, 3.00]"),
            ((300.0, 300.0, 300.0), "300 ns [300, 300]"),
            ((0.0, 0.0, 0.0), "0 ns [0, 0]"),
            ((0.3, 0.001, 90.0), "0.3 ns [0.0, 90.0]"),
            ((9_999.0, 9_990.0, 10_020.0), "9999 ns [9990, 10020]"),
            ((12_340.0, 12_300.0, 12_380.0), "12.34 us [12.30, 12.38]"),
            ((3.95e10, 3.9e10, 4.0e10), "39.5 s [39.0, 40.0]"),
            // Simulated, it may have hardly a width.
            ((107.719_99, 107.719_94, 107.720_03), "107.7 ns [107.7, 107.7]"),
            ((1.000_004, 1.000_003, 1.000_005), "1.000 ns [1.000, 1.000]"),
            ((12_340.0, 12_339.99, 12_340.01), "12.34 us [12.34, 12.34]"),
            ((1e-12, 1e-13, 1e-11), "1.00e-12 ns [1.00e-13, 1.00e-11]"),
            ((1e30, 1e29, 1e31), "1.00e21 s [1.00e20, 1.00e22]"),
            ((24.3, 1e-9, 1e18), "2.43e1 ns [1.00e-9, 1.00e18]"),
        ] {
            assert_eq!(ns_interval(&interval(value, low, high)), text);
        }
    }

    #[test]
    fn throughput_is_the_inverse() {
        let ns = interval(24.3, 23.9, 24.8);
        assert_eq!(throughput_interval(64, &ns), "2.63 GB/s [2.58, 2.68]");
        assert_eq!(throughput_interval(64, &interval(243.0, 239.0, 248.0)), "263 MB/s [258, 268]");
        assert_eq!(throughput_interval(1, &interval(1e6, 1e6, 1e6)), "1.00 kB/s [1.00, 1.00]");
        assert_eq!(throughput_interval(1, &interval(1e8, 9e7, 1.2e8)), "10.0 B/s [8.3, 11.1]");
        assert_eq!(throughput_interval(64, &interval(0.0, 0.0, 0.0)), "-");
        assert_eq!(throughput_interval(0, &ns), "0 B/s [0, 0]");
    }

    #[test]
    fn slowdowns_are_percentages_or_factors() {
        for ((value, low, high), text) in [
            ((1.032, 1.029, 1.035), "+3.2 % [+2.9, +3.5]"),
            ((12.1, 11.8, 12.4), "12.1x [11.8, 12.4]"),
            ((2.0, 0.4, 9.4), "2.0x [0.4, 9.4]"),
            ((2.0, 1.9, 2.1), "2.00x [1.90, 2.10]"),
            ((1.9, 1.8, 2.0), "+90 % [+80, +100]"),
            ((0.9, 0.87, 0.93), "-10 % [-13, -7]"),
            ((1.0, 1.0, 1.0), "0 % [0, 0]"),
            ((1.0006, 0.998, 1.003), "+0.1 % [-0.2, +0.3]"),
            ((0.9999, 0.99, 1.01), "0.0 % [-1.0, +1.0]"),
            // What is more than nothing reads as more than nothing.
            ((1.012, 1.0002, 1.024), "+1.20 % [+0.02, +2.40]"),
            ((0.988, 0.976, 0.9998), "-1.20 % [-2.40, -0.02]"),
            ((1.000_000_05, 1.000_000_04, 1.000_000_06), "0.00 % [0.00, 0.00]"),
            ((0.499_964, 0.499_963, 0.499_965), "-50.00 % [-50.00, -50.00]"),
            ((17.719_99, 17.719_94, 17.720_03), "17.72x [17.72, 17.72]"),
            ((3.0, 1.04, 9.0), "3.00x [1.04, 9.00]"),
            ((1.5, 0.1, 22.0), "+50 % [-90, +2100]"),
            ((0.05, 0.04, 0.06), "0.050x [0.040, 0.060]"),
            ((1e9, 1e8, 1e10), "1.00e9x [1.00e8, 1.00e10]"),
            ((1.0, 1e-9, 1e9), "1.00e0x [1.00e-9, 1.00e9]"),
        ] {
            assert_eq!(slowdown(&interval(value, low, high)), text);
        }
    }

    #[test]
    fn rates_without_an_interval_have_three_digits() {
        for (rate, text) in [
            (0.0, "0 B/s"),
            (3.414e9, "3.41 GB/s"),
            (61e6, "61.0 MB/s"),
            (999.7e6, "1.00 GB/s"),
            (999.2e6, "999 MB/s"),
            (12.0, "12.0 B/s"),
            (1e-9, "1.00e-9 B/s"),
            (1e30, "1.00e21 GB/s"),
            (f64::NAN, "-"),
            (-1.0, "-"),
        ] {
            assert_eq!(bytes_per_s(rate), text);
        }
        assert_eq!(units_per_s(41.23e6, "loads"), "41.2 M loads/s");
        assert_eq!(units_per_s(0.0, "lines"), "0 lines/s");
        assert_eq!(units_per_s(9_999.0, "runs"), "9999 runs/s");
        assert_eq!(units_per_s(0.025, "runs"), "0.0250 runs/s");
        assert_eq!(units_per_s(f64::INFINITY, "runs"), "-");
        assert_eq!(
            (ns(82.0).as_str(), ns(999.9).as_str(), ns(1250.0).as_str()),
            ("82.0 ns", "1.00 us", "1.25 us")
        );
    }

    #[test]
    fn durations_are_said_in_two_units_at_most() {
        for (seconds, text) in [
            (0.0, "0 s"),
            (4e-9, "4.00 ns"),
            (0.85, "850 ms"),
            (0.9997, "1.0 s"),
            (12.34, "12.3 s"),
            (59.96, "1 min"),
            (80.0, "1 min 20 s"),
            (3_600.0, "1 h"),
            (3_599.7, "1 h"),
            (7_500.0, "2 h 5 min"),
            (86_390.0, "1 d"),
            (273_600.0, "3 d 4 h"),
            (1e12, "11574074 d 2 h"),
        ] {
            assert_eq!(duration(Duration::from_secs_f64(seconds)), text, "{seconds}");
        }
    }

    #[test]
    fn counts_and_shares() {
        let counts: Vec<String> =
            [0, 999, 1234, 12_345, 123_456, 1_234_567].into_iter().map(count).collect();
        assert_eq!(counts, ["0", "999", "1234", "12 345", "123 456", "1 234 567"]);
        assert_eq!(count(u64::MAX), "18 446 744 073 709 551 615");
        let shares: Vec<String> =
            [0.0, 0.95, 0.983_33, 0.004, 1e-9, 1.0, 0.1].into_iter().map(percent).collect();
        assert_eq!(shares, ["0 %", "95 %", "98.33 %", "0.4 %", "< 0.01 %", "100 %", "10 %"]);
        assert_eq!(percent(f64::NAN), "-");
    }

    #[test]
    fn what_is_not_estimable_says_why() {
        let reason = NotEstimable::TooFewTrials { trials: 1 };
        let text = "too few trials: 1, and a figure takes at least 4";
        assert_eq!(slowdown_estimate(&Err(reason)), text);
        assert_eq!(ns_estimate(&Err(reason)), text);
        assert_eq!(ns_estimate(&Ok(interval(24.3, 23.9, 24.8))), "24.3 ns [23.9, 24.8]");
    }

    #[test]
    fn no_input_shows_as_nan_or_infinity() {
        let figures = [
            0.0,
            -0.0,
            f64::MIN_POSITIVE,
            5e-324,
            1e-9,
            0.1,
            0.999_999_999,
            1.0,
            1.000_000_001,
            9.999_999,
            1e6,
            f64::MAX,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::NAN,
            -1.0,
        ];
        for value in figures {
            for low in figures {
                for high in figures {
                    let one = interval(value, low, high);
                    for text in [ns_interval(&one), throughput_interval(64, &one), slowdown(&one)] {
                        let lower = text.to_lowercase();
                        assert!(
                            !lower.contains("nan") && !lower.contains("inf"),
                            "{one:?}: {text}"
                        );
                        assert!(text.len() < 90 && !text.is_empty(), "{one:?}: {text}");
                    }
                }
            }
            for text in [bytes_per_s(value), units_per_s(value, "x"), ns(value), percent(value)] {
                assert!(
                    !text.to_lowercase().contains("nan") && !text.contains("inf"),
                    "{value}: {text}"
                );
            }
        }
    }

    #[test]
    fn precisions_are_coarse() {
        let texts = [0.0, 1e-6, 0.0042, 0.0213, 0.153, 3.0, 1e9].map(coarse);
        assert_eq!(
            texts,
            ["0 %", "< 0.01 %", "0.42 %", "2.1 %", "15 %", "300 %", "more than 1000 %"]
        );
    }
}
mod no_break;

use std::fmt;
use std::time::Duration;

use ringfence_analysis::estimate::{Difference, Estimate, Interval, Observed};

pub use no_break::{NO_BREAK, unbroken};

use digits::{by_width, decimals, number, rounded, scientific, signed};

/// Stands for a figure that is not there.
pub const NO_FIGURE: &str = "-";

/// From this factor on a slowdown is printed as a factor instead of a percentage.
const FACTOR_FROM: f64 = 2.0;

/// Below this factor a speed-up is printed as a factor: percentages would crowd below -100 %.
const FACTOR_BELOW: f64 = 0.1;

/// Decimals of a percentage, at most: a change of less than 0.01 % reads as none, whatever its
/// interval.
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
    let units =
        [(1e4, 1.0, " ns"), (1e7, 1e3, " us"), (1e10, 1e6, " ms"), (f64::INFINITY, 1e9, " s")];
    in_units(bounds(ns), &units)
}

/// A time in ns with at most three digits, in the unit that allows it: `24.3 ns [23.9, 24.8]`,
/// `5.8 ms [5.5, 6.3]`. A lower bound above zero never reads as zero where a digit more shows it.
pub fn time_figure(ns: &Interval) -> Figure {
    let units =
        [(1e3, 1.0, " ns"), (1e6, 1e3, " us"), (1e9, 1e6, " ms"), (f64::INFINITY, 1e9, " s")];
    let three = |figures: [f64; 3]| {
        let (start, most) = (decimals(figures), digits::for_three(figures[0]));
        let shows = |d: &usize| figures[1] <= 0.0 || rounded(figures[1], *d) > 0.0;
        (start.min(most)..most).find(shows).unwrap_or(most)
    };
    in_units_to(bounds(ns), &units, three)
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
    let (none, figures) =
        if factor { (1.0, figures) } else { (0.0, figures.map(|x| (x - 1.0) * 100.0)) };
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
    Figure {
        value: format!("~{}", show(value)),
        interval: if trials > 1 { range } else { String::new() },
    }
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
    let steps =
        [(1e4, 1.0, " "), (1e6, 1e3, " k "), (1e9, 1e6, " M "), (f64::INFINITY, 1e9, " G ")];
    let text = plain(rate, &steps);
    if text == NO_FIGURE { text } else { format!("{text}{unit}/s") }
}

/// A time without an interval, three digits: `82 ns`, `1.25 us`, `39.5 s`.
pub fn ns(ns: f64) -> String {
    plain(
        ns,
        &[(1e3, 1.0, " ns"), (1e6, 1e3, " us"), (1e9, 1e6, " ms"), (f64::INFINITY, 1e9, " s")],
    )
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
    format!(
        "{:+.digits$} [{:+.digits$}, {:+.digits$}]",
        difference.ns, difference.low, difference.high
    )
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
    in_units_to(figures, units, decimals)
}

fn in_units_to(figures: [f64; 3], units: &Units, decimals: impl Fn([f64; 3]) -> usize) -> Figure {
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
    let (_, divisor, name) =
        units.iter().find(|(end, ..)| figure < *end).unwrap_or(&units[units.len() - 1]);
    (*divisor, name)
}
