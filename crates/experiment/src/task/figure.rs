//! A figure that a program prints at the end of a run, in place of the run's time.

use std::fmt;

use regex_lite::{Regex, RegexBuilder};
use serde::{Deserialize, Serialize};

use super::numbers::{TIMES, number_length, unit_of};

const PREFIXES: [(&str, f64); 4] = [("k", 1e3), ("K", 1e3), ("M", 1e6), ("G", 1e9)];
// A run counts in whole units and ns: of fewer than so many, rounding would show.
const LEAST_COUNT: f64 = 100.0;
// Some of them can be added up in 64 bits.
const MOST_COUNT: f64 = 1e18;

/// The figure in a run's output that replaces its time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "CommandFigure"))]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// A regular expression whose first group is the number, in what the program writes to its
    /// standard output or, if it is not there, its standard error. `^` and `$` stand for the ends
    /// of lines. Of several matches the last counts.
    pub pattern: String,
    /// Whether less of it is better, as of a time, or more, as of a rate.
    #[serde(default)]
    pub better: Better,
}

/// Whether lower or higher figures are better.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Better {
    /// Less: a time. The slowdown is what it is beside, divided by what it is alone.
    #[default]
    Lower,
    /// More: a rate. The slowdown is what it is alone, divided by what it is beside.
    Higher,
}

/// The value of a run whose figure replaces its time.
///
/// All estimates compare ns per unit, beside and alone. So where less is better, a run is a
/// thousand units that took its figure each: a latency of `1.5ms` is 1,500,000 ns a unit, to a
/// thousandth of one. A number without a unit of time counts as so many us. Where more is better, a
/// run is ten thousand times as many units as its figure says, in ten thousand seconds: units per
/// second are the figure then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counted {
    /// Units of work.
    pub units: u64,
    /// The time that they count as having taken, ns.
    pub ns: u64,
}

/// Finds a figure in what a run has printed.
#[derive(Debug)]
pub struct Finder {
    regex: Regex,
    better: Better,
}

/// Why a run has no figure; the text follows "its output".
#[derive(Debug, Clone, PartialEq)]
pub enum NoFigure {
    /// Nothing matches.
    NoMatch,
    /// What the group captures is no number.
    NoNumber(String),
    /// The group begins within a number.
    Part(String),
    /// Nothing can be compared with it.
    Range(f64),
}

impl fmt::Display for NoFigure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoFigure::NoMatch => f.write_str("has no such number"),
            NoFigure::NoNumber(text) => write!(f, "has '{text}' there, which is not a number"),
            NoFigure::Part(text) => write!(
                f,
                "has the number '{text}' there, and the group starts in the middle of it: extend \
                 the pattern to match the text before the number, such as a space"
            ),
            NoFigure::Range(figure) => write!(
                f,
                "has {figure} there, which is too small or too large to compare: print it in \
                 another unit"
            ),
        }
    }
}

// One sentence for a pattern that is none.
pub(super) fn regex(builder: &RegexBuilder, pattern: &str) -> Result<Regex, String> {
    builder.build().map_err(|error| {
        let why = error.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
        format!("'{pattern}' is not a regular expression: {why}")
    })
}

impl Figure {
    /// A pattern, and `lower` or `higher` for what is better.
    ///
    /// # Errors
    /// One sentence for a pattern as of [`Figure::finder`], and for another word.
    pub fn parse(pattern: &str, better: &str) -> Result<Self, String> {
        let better = match better {
            "lower" => Better::Lower,
            "higher" => Better::Higher,
            other => return Err(format!("'{other}' is not lower or higher")),
        };
        let figure = Self { pattern: pattern.into(), better };
        figure.finder()?;
        Ok(figure)
    }

    /// What finds it.
    ///
    /// # Errors
    /// One sentence for a pattern that is no regular expression, or has no group.
    pub fn finder(&self) -> Result<Finder, String> {
        let regex =
            regex(RegexBuilder::new(&self.pattern).multi_line(true).crlf(true), &self.pattern)?;
        if regex.captures_len() < 2 {
            return Err(format!(
                "'{}' has no group for the number: put the number in one, as in 'p99 ([0-9.]+)'",
                self.pattern
            ));
        }
        Ok(Finder { regex, better: self.better })
    }

    pub(super) fn check(&self) -> Result<(), String> {
        self.finder().map(|_| ()).map_err(|why| format!("figure: {why}"))
    }
}

impl Finder {
    /// The figure in a run's output.
    ///
    /// # Errors
    /// Where there is none that can be compared.
    pub fn read(&self, stdout: &str, stderr: &str) -> Result<Counted, NoFigure> {
        let last = |text| Some((text, self.regex.captures_iter(text).last()?.get(1)?));
        let (text, group) = last(stdout).or_else(|| last(stderr)).ok_or(NoFigure::NoMatch)?;
        let captured = group.as_str();
        let begin = group.start() + captured.len() - captured.trim_start().len();
        // A group may end too early for the whole number, and its unit stands behind it.
        let rest = &text[begin..];
        let (length, before) = (number_length(rest), &text[..begin]);
        let number =
            rest[..length].parse::<f64>().ok().filter(|_| length > 0 && begin < group.end());
        let number = number.ok_or_else(|| NoFigure::NoNumber(captured.trim().into()))?;
        let goes_on = |c: char| c.is_ascii_digit() || matches!(c, '.' | ',');
        let whole = before.trim_end_matches(goes_on).len();
        if before[whole..].contains(|c: char| c.is_ascii_digit()) {
            return Err(NoFigure::Part(text[whole..begin + length].into()));
        }
        if rest[length..].starts_with(',')
            && rest[length + 1..].starts_with(|c: char| c.is_ascii_digit())
        {
            return Err(NoFigure::NoNumber(
                rest.split_whitespace().next().unwrap_or_default().into(),
            ));
        }
        let unit = &rest[length..];
        let time = unit_of(unit.strip_prefix(' ').unwrap_or(unit), &TIMES);
        let prefix = unit_of(unit, &PREFIXES).map_or(1.0, |(scale, _)| scale);
        let counted = match (self.better, time) {
            (Better::Lower, Some((ns, _))) => of_time(number * ns),
            (Better::Lower, None) => of_time(number * prefix * 1e3),
            (Better::Higher, time) => of_rate(number * time.map_or(prefix, |(ns, _)| ns / 1e9)),
        };
        counted.ok_or(NoFigure::Range(number))
    }
}

fn of_time(ns: f64) -> Option<Counted> {
    Some(Counted { units: 1000, ns: count(ns * 1e3)? })
}

fn of_rate(rate: f64) -> Option<Counted> {
    Some(Counted { units: count(rate * 1e4)?, ns: 10_000_000_000_000 })
}

fn count(count: f64) -> Option<u64> {
    (LEAST_COUNT..=MOST_COUNT).contains(&count).then(|| count.round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(
        pattern: &str,
        better: Better,
        stdout: &str,
        stderr: &str,
    ) -> Result<(u64, u64), NoFigure> {
        let figure = Figure { pattern: pattern.into(), better };
        figure.finder().unwrap().read(stdout, stderr).map(|counted| (counted.units, counted.ns))
    }

    #[test]
    fn a_figure_is_the_number_with_the_unit_that_follows() {
        let wrk = "  Thread Stats   Avg      Stdev\n    Latency   635.91us    \
                   0.89ms\nRequests/sec: 112.5k\n";
        assert_eq!(read(r"Latency\s+([\d.]+)", Better::Lower, wrk, ""), Ok((1000, 635_910_000)));
        // With the unit in the group, and a group that ends too early.
        assert_eq!(read(r"Latency\s+(\S+)", Better::Lower, wrk, ""), Ok((1000, 635_910_000)));
        assert_eq!(read(r"Latency\s+(\d+)", Better::Lower, wrk, ""), Ok((1000, 635_910_000)));
        let rate = read(r"^Requests/sec:\s+([\d.]+)", Better::Higher, wrk, "").unwrap();
        assert_eq!(rate, (1_125_000_000, 10_000_000_000_000));
        let took = |text| read("took ([0-9.]+)", Better::Lower, text, "");
        assert_eq!(took("took 12.3 ns/op"), Ok((1000, 12_300)));
        assert_eq!(took("took 3 s"), Ok((1000, 3_000_000_000_000)));
        // None of its own: so many us.
        assert_eq!(took("took 3msgs"), Ok((1000, 3_000_000)));
        assert_eq!(took("took 3 k"), Ok((1000, 3_000_000)));
        assert_eq!(took("took 3k"), Ok((1000, 3_000_000_000)));
        assert_eq!(took("took 2500000000"), Ok((1000, 2_500_000_000_000_000)));
    }

    #[test]
    fn the_last_match_counts_and_standard_output_before_standard_error() {
        let read = |stdout, stderr| read("^t=(.*)$", Better::Lower, stdout, stderr);
        assert_eq!(read("t=1s\r\nt=2s\r\n", "t=3s"), Ok((1000, 2_000_000_000_000)));
        assert_eq!(read("t: 1s", "t=3s\nbye"), Ok((1000, 3_000_000_000_000)));
        assert_eq!(read("", ""), Err(NoFigure::NoMatch));
    }

    #[test]
    fn what_is_no_whole_number_is_refused() {
        let read = |pattern, text| read(pattern, Better::Lower, text, "").unwrap_err();
        assert_eq!(read(".*([0-9]+)", "rate 12345"), NoFigure::Part("12345".into()));
        assert_eq!(read(r"(\d+) req", "12,345 req"), NoFigure::Part("12,345".into()));
        assert_eq!(read("rate ([0-9]+)", "rate 12,345"), NoFigure::NoNumber("12,345".into()));
        assert_eq!(read("rate (.*)", "rate none"), NoFigure::NoNumber("none".into()));
        assert_eq!(read("rate (x?)", "rate 5"), NoFigure::NoNumber(String::new()));
        assert_eq!(read("rate (.*)", "rate -5"), NoFigure::NoNumber("-5".into()));
        assert_eq!(read("rate (.*)", "rate 0"), NoFigure::Range(0.0));
        assert_eq!(read("rate (.*)", "rate 1e300"), NoFigure::Range(1e300));
    }

    #[test]
    fn ns_per_unit_is_as_many_times_larger_as_the_figure_is_worse() {
        let ns_per_unit = |better: Better, figure: f64, unit: &str| {
            let (units, ns) = read("(.*)", better, &format!("{figure}{unit}"), "").unwrap();
            ns as f64 / units as f64
        };
        for (better, alone, unit) in [
            (Better::Lower, 0.5, "ns"),
            (Better::Lower, 12.0, " us"),
            (Better::Lower, 600.0, "s"),
            (Better::Lower, 0.5, ""),
            (Better::Lower, 3e9, ""),
            (Better::Higher, 0.5, ""),
            (Better::Higher, 12.0, "k"),
            (Better::Higher, 3e6, "M"),
        ] {
            let beside = if better == Better::Lower { alone * 1.25 } else { alone / 1.25 };
            let slowdown = ns_per_unit(better, beside, unit) / ns_per_unit(better, alone, unit);
            assert!((slowdown - 1.25).abs() < 1e-3, "{alone}{unit}: {slowdown}");
        }
        assert_eq!(read("(.*)", Better::Higher, "0.001", ""), Err(NoFigure::Range(0.001)));
    }

    #[test]
    fn a_pattern_has_a_group() {
        let why = |pattern: &str| {
            Figure { pattern: pattern.into(), better: Better::Lower }.finder().unwrap_err()
        };
        assert!(why("p99 [0-9]+").contains("put the number in one"));
        assert!(why("p99 ([0-9]+").contains("is not a regular expression: "));
        assert!(!why("p99 ([0-9]+").contains('\n'));
    }
}
