//! Files in the formats of hyperfine, so that what reads those reads these.

use std::collections::BTreeMap;
use std::fmt::Write;

use ringfence_machine::text::printable;
use serde::Serialize;

use crate::case::Case;
use crate::findings::{Findings, Measure, corrected};
use crate::order::Slot;
use crate::run::{Quantity, Run, kept};

/// A unit of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// us.
    Microsecond,
    /// ms.
    Millisecond,
    /// s.
    Second,
}

impl Unit {
    /// The one in which a time reads best.
    pub fn fitting(ns: f64) -> Self {
        if ns < 1e6 {
            Self::Microsecond
        } else if ns < 1e9 {
            Self::Millisecond
        } else {
            Self::Second
        }
    }

    fn ns(self) -> f64 {
        match self {
            Self::Microsecond => 1e3,
            Self::Millisecond => 1e6,
            Self::Second => 1e9,
        }
    }

    // As many as hyperfine gives.
    fn digits(self) -> usize {
        if self == Self::Second { 3 } else { 1 }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Microsecond => "µs",
            Self::Millisecond => "ms",
            Self::Second => "s",
        }
    }
}

#[derive(Serialize)]
struct Exported<'a> {
    results: Vec<Result<'a>>,
}

#[derive(Serialize)]
struct Result<'a> {
    command: &'a str,
    mean: f64,
    stddev: Option<f64>,
    median: f64,
    user: f64,
    system: f64,
    min: f64,
    max: f64,
    times: Vec<f64>,
    memory_usage_byte: Vec<u64>,
    exit_codes: Vec<Option<i32>>,
    #[serde(skip_serializing_if = "serde_json::Map::is_empty")]
    parameters: serde_json::Map<String, serde_json::Value>,
}

/// hyperfine's `--export-json`: times in seconds, without the shell's start and without warm-up.
pub fn json(findings: &Findings, runs: &[Run]) -> String {
    let result = |(number, measure): (usize, &'_ Measure)| {
        let described = measure.described?;
        let s = |ns: f64| ns / 1e9;
        let other = |asked| {
            measure.others.iter().find(|(one, _)| *one == asked).map_or(0.0, |(_, ns)| s(*ns))
        };
        let kept = kept(runs, Slot::Case(number));
        Some((number, described, s, other(Quantity::User), other(Quantity::System), kept))
    };
    let results = findings.commands.iter().enumerate().filter_map(|(number, measure)| {
        let (_, described, s, user, system, kept) = result((number, measure))?;
        Some(Result {
            command: &measure.case.name,
            mean: s(described.mean),
            stddev: described.stddev.map(s),
            median: s(described.median),
            user,
            system,
            min: s(described.min),
            max: s(described.max),
            times: corrected(runs, number).map(s).collect(),
            memory_usage_byte: kept.values().map(|took| took.peak_memory).collect(),
            exit_codes: kept.values().map(|took| took.shells_code()).collect(),
            parameters: measure
                .case
                .parameters
                .iter()
                .map(|(name, value)| (name.clone(), value.clone().into()))
                .collect(),
        })
    });
    let exported = Exported { results: results.collect() };
    serde_json::to_string_pretty(&exported).unwrap_or_default() + "\n"
}

/// hyperfine's `--export-csv`: seconds.
pub fn csv(findings: &Findings) -> String {
    // In the order of their names, as hyperfine has them.
    let sorted =
        |measure: &Measure| measure.case.parameters.iter().cloned().collect::<BTreeMap<_, _>>();
    let names = findings.commands.first().map(sorted).unwrap_or_default();
    let mut text = String::from("command,mean,stddev,median,user,system,min,max");
    names.keys().for_each(|name| _ = write!(text, ",parameter_{}", quoted(name)));
    text.push('\n');
    for measure in &findings.commands {
        let Some(all) = measure.described else { continue };
        let other =
            |asked| measure.others.iter().find(|(one, _)| *one == asked).map_or(0.0, |(_, ns)| *ns);
        let figures = [
            all.mean,
            all.stddev.unwrap_or(0.0),
            all.median,
            other(Quantity::User),
            other(Quantity::System),
            all.min,
            all.max,
        ];
        text += &quoted(&measure.case.name);
        figures.iter().for_each(|ns| _ = write!(text, ",{}", ns / 1e9));
        sorted(measure).values().for_each(|value| _ = write!(text, ",{}", quoted(value)));
        text.push('\n');
    }
    text
}

fn quoted(text: &str) -> String {
    match text.contains([',', '"', '\n']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.into(),
    }
}

/// How a table is marked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Markup {
    /// Markdown.
    Markdown,
    /// AsciiDoc.
    Asciidoc,
    /// Emacs org-mode.
    Orgmode,
}

/// In which order a table has commands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Sort {
    /// That of the command line.
    #[default]
    Auto,
    /// The same.
    Command,
    /// The fastest first.
    MeanTime,
}

/// hyperfine's table, with the ratio's interval in place of its spread.
pub fn table(findings: &Findings, unit: Option<Unit>, sort: Sort, markup: Markup) -> String {
    let first = findings.commands.iter().find_map(|measure| measure.described);
    let unit = unit.unwrap_or_else(|| Unit::fitting(first.map_or(0.0, |all| all.mean)));
    let name = unit.name();
    let head = [
        "Command".to_string(),
        format!("Mean [{name}]"),
        format!("Min [{name}]"),
        format!("Max [{name}]"),
        "Relative".into(),
    ];
    let mut commands: Vec<&Measure> = findings.commands.iter().collect();
    if sort == Sort::MeanTime {
        let mean = |measure: &Measure| measure.described.map_or(f64::INFINITY, |all| all.mean);
        commands.sort_by(|a, b| mean(a).total_cmp(&mean(b)));
    }
    let rows = commands.into_iter().filter_map(|measure| {
        let all = measure.described?;
        let show = |ns: f64| format!("{:.*}", unit.digits(), ns / unit.ns());
        let mean = match all.stddev {
            Some(stddev) => format!("{} ± {}", show(all.mean), show(stddev)),
            None => show(all.mean),
        };
        // A line feed or a bar would end the cell, and a backtick the code.
        let name = printable(&measure.case.name);
        let code = match markup {
            Markup::Markdown | Markup::Asciidoc => {
                format!("`{}`", name.replace('|', "\\|").replace('`', "'"))
            }
            Markup::Orgmode => format!("={}=", name.replace('|', "\\vert{}")),
        };
        Some([code, mean, show(all.min), show(all.max), relative(findings, &measure.case)])
    });
    let rows: Vec<[String; 5]> = rows.collect();
    match markup {
        Markup::Markdown => {
            let line = |cells: &[String; 5]| format!("| {} |\n", cells.join(" | "));
            format!(
                "{}|:---|---:|---:|---:|---:|\n{}",
                line(&head),
                rows.iter().map(line).collect::<String>()
            )
        }
        Markup::Orgmode => {
            let line = |cells: &[String; 5]| format!("| {} |\n", cells.join(" | "));
            format!(
                "{}|--+--+--+--+--|\n{}",
                line(&head),
                rows.iter().map(line).collect::<String>()
            )
        }
        Markup::Asciidoc => {
            let line = |cells: &[String; 5]| format!("| {}\n", cells.join("\n| "));
            let rows: Vec<String> = rows.iter().map(line).collect();
            format!("[cols=\"<,>,>,>,>\"]\n|===\n{}\n{}|===\n", line(&head), rows.join("\n"))
        }
    }
}

fn relative(findings: &Findings, case: &Case) -> String {
    let mine = findings.comparisons.iter().find(|one| {
        one.of == case.role && (one.parameters.is_empty() || one.parameters == case.parameters)
    });
    match mine.map(|one| one.ratio.estimate()) {
        None => "1.00".into(),
        Some(Ok(ratio)) => format!("{:.3} [{:.3}, {:.3}]", ratio.value, ratio.low, ratio.high),
        Some(Err(_)) => "-".into(),
    }
}
