//! Quantities as people type them: `4k`, `1MB`, `60`, `1m`, `2`. Flags take them; experiment files
//! take only exact ones.

use std::convert::Infallible;

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command};
use ringfence_experiment::shell;
use ringfence_experiment::task::WORKLOADS;
use ringfence_machine::units::Bytes;

/// What the value of a flag is.
#[derive(Debug, Clone, Copy)]
enum Kind {
    /// One size, or several.
    Sizes,
    /// One rate, or several.
    Rates,
    /// A time; a number alone is refused, since it could be of milliseconds.
    Time,
    /// A time of which a number alone is of seconds.
    Seconds,
    /// A share, or a bound such as `p99<5ms`.
    Share,
    /// A built-in workload with parameters, or a program.
    Task,
}

impl Kind {
    /// By the name that help gives the value, and of lists by the flag.
    fn of(arg: &Arg) -> Option<Self> {
        let flag = arg.get_id().as_str();
        match arg.get_value_names()?.first()?.as_str() {
            "SIZE" => Some(Self::Sizes),
            "LIST" => of_key(flag),
            "TIME" if matches!(flag, "time" | "ready_within") => Some(Self::Seconds),
            "TIME" => Some(Self::Time),
            "SHARE" | "BUDGET" => Some(Self::Share),
            "TASK" => Some(Self::Task),
            _ => None,
        }
    }

    /// The exact text for one that is not exact and can only mean one thing; otherwise the text.
    fn exact(self, text: &str) -> String {
        let each = |one: fn(&str) -> Option<String>| {
            let all = text.split(',').map(|part| one(part).unwrap_or_else(|| part.to_owned()));
            all.collect::<Vec<_>>().join(",")
        };
        let one = match self {
            Self::Sizes => return each(size),
            Self::Rates => return each(rate),
            Self::Time => time(text),
            Self::Seconds => time(text).or_else(|| number(text).map(|number| format!("{number}s"))),
            Self::Share => share(text),
            Self::Task => task(text),
        };
        one.unwrap_or_else(|| text.to_owned())
    }
}

/// The same command, whose flags take quantities that are not exact.
pub fn lenient(command: Command) -> Command {
    let take = |arg: Arg| match Kind::of(&arg) {
        Some(kind) => {
            arg.value_parser(move |text: &str| Ok::<String, Infallible>(kind.exact(text)))
        }
        None => arg,
    };
    command.mut_args(take).mut_subcommands(lenient)
}

/// How each quantity was read that was not exact, a line for each flag.
pub fn readings(command: &Command, matches: &ArgMatches) -> Vec<String> {
    let mut lines: Vec<String> = command
        .get_arguments()
        .filter(|arg| Kind::of(arg).is_some())
        .filter(|arg| matches.value_source(arg.get_id().as_str()) == Some(ValueSource::CommandLine))
        .flat_map(|arg| {
            let id = arg.get_id().as_str();
            let typed = matches.get_raw(id).into_iter().flatten();
            let read = matches.get_many::<String>(id).into_iter().flatten();
            let pairs = typed.map(|typed| typed.to_string_lossy()).zip(read);
            let inexact = pairs.filter(|(typed, read)| typed != *read);
            inexact
                .map(|(typed, read)| {
                    let flag = arg.get_long().unwrap_or(id);
                    format!("--{flag} {}: read as {}", shell::quote(&typed), shell::quote(read))
                })
                .collect::<Vec<_>>()
        })
        .collect();
    if let Some((name, matches)) = matches.subcommand()
        && let Some(below) = command.find_subcommand(name)
    {
        lines.extend(readings(below, matches));
    }
    lines
}

// What a parameter of a workload is, and a flag that is called like it.
fn of_key(key: &str) -> Option<Kind> {
    match key {
        "access" | "block" | "entry" | "footprint" | "limit" | "movsb_from" | "nt_copy_from"
        | "pages" | "payload" | "record" | "size" => Some(Kind::Sizes),
        "pace" => Some(Kind::Rates),
        "interval" | "timeout" => Some(Kind::Time),
        _ => None,
    }
}

// A number and what follows it.
fn split(text: &str) -> Option<(&str, String)> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    number.parse::<f64>().ok()?;
    Some((number, unit.trim_start().to_lowercase()))
}

fn number(text: &str) -> Option<&str> {
    let (number, unit) = split(text)?;
    unit.is_empty().then_some(number)
}

// Units of 1024, whatever their case: few mean 1000 by a size of records.
fn size(text: &str) -> Option<String> {
    let (number, unit) = split(text)?;
    let exact = match unit.as_str() {
        "k" | "kb" | "ki" => "KiB",
        "m" | "mb" | "mi" => "MiB",
        "g" | "gb" | "gi" => "GiB",
        "t" | "tb" | "ti" => "TiB",
        _ => return None,
    };
    Some(format!("{number}{exact}"))
}

fn rate(text: &str) -> Option<String> {
    if let Some(stem) = text.trim().strip_suffix("/s") {
        return size(stem).map(|size| format!("{size}/s"));
    }
    let exact = |text: &str| text.parse::<Bytes>().ok().map(|_| text.trim().to_owned());
    let size = size(text).or_else(|| exact(text).filter(|_| number(text).is_none()))?;
    Some(format!("{size}/s"))
}

fn time(text: &str) -> Option<String> {
    let (number, unit) = split(text)?;
    let exact = match unit.as_str() {
        "\u{b5}s" | "\u{3bc}s" => "us",
        "sec" | "secs" | "second" | "seconds" => "s",
        "m" | "mins" | "minute" | "minutes" => "min",
        "hr" | "hour" | "hours" => "h",
        _ => return None,
    };
    Some(format!("{number}{exact}"))
}

// Below 1 it could be a part of one: 0.05 is 5 % in most other places.
fn share(text: &str) -> Option<String> {
    let number = number(text)?;
    let percent = number.parse::<f64>().ok()?;
    (1.0..=100.0).contains(&percent).then(|| format!("{number}%"))
}

// Of a program nothing is changed.
fn task(text: &str) -> Option<String> {
    let first = text.split_whitespace().next()?;
    if !WORKLOADS.contains(&first) {
        return None;
    }
    let word = |word: &str| match word.split_once('=') {
        Some((key, value)) => match of_key(key) {
            Some(kind) => format!("{key}={}", kind.exact(value)),
            None => word.to_owned(),
        },
        None => word.to_owned(),
    };
    Some(text.split(' ').map(word).collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_as_people_type_them() {
        for (kind, typed, read) in [
            (Kind::Sizes, "4k", "4KiB"),
            (Kind::Sizes, "4K,8KB,1mb,64B", "4KiB,8KiB,1MiB,64B"),
            (Kind::Sizes, "1.5G", "1.5GiB"),
            (Kind::Sizes, "thp,2M", "thp,2MiB"),
            (Kind::Rates, "500MB/s,1GiB/s", "500MiB/s,1GiB/s"),
            (Kind::Rates, "500m", "500MiB/s"),
            (Kind::Rates, "500MiB", "500MiB/s"),
            (Kind::Time, "1m", "1min"),
            (Kind::Time, "5 µs", "5us"),
            (Kind::Seconds, "60", "60s"),
            (Kind::Seconds, "1.5 hours", "1.5h"),
            (Kind::Share, "2", "2%"),
            (
                Kind::Task,
                "write block=4k,1M instruction=nt",
                "write block=4KiB,1MiB instruction=nt",
            ),
        ] {
            assert_eq!(kind.exact(typed), read, "{typed}");
        }
    }

    #[test]
    fn others_stay_as_they_are_typed() {
        for (kind, typed) in [
            (Kind::Sizes, "4KiB,64"),
            (Kind::Sizes, "big"),
            (Kind::Sizes, ""),
            (Kind::Sizes, "4x"),
            (Kind::Rates, "500"),
            (Kind::Rates, "fast"),
            (Kind::Time, "20"),
            (Kind::Time, "20ms"),
            (Kind::Seconds, "1d"),
            (Kind::Seconds, "-1"),
            (Kind::Share, "0.05"),
            (Kind::Share, "150"),
            (Kind::Share, "p99<5ms"),
            (Kind::Task, "dd bs=4k size=4k"),
            (Kind::Task, "chase  footprint='4k'"),
        ] {
            assert_eq!(kind.exact(typed), typed);
        }
    }

    #[test]
    fn a_reading_names_the_flag_and_both_texts() {
        let command = crate::args::command();
        let words = ["ringfence", "commit", "--record", "4k,64B", "--time", "1m"];
        let matches = command.clone().try_get_matches_from(words).unwrap();
        assert_eq!(
            readings(&command, &matches),
            ["--record 4k,64B: read as 4KiB,64B", "--time 1m: read as 1min"]
        );
        let words = ["ringfence", "commit", "--record", "4KiB", "--time", "60s"];
        let matches = command.clone().try_get_matches_from(words).unwrap();
        assert_eq!(readings(&command, &matches), [""; 0]);
    }
}
