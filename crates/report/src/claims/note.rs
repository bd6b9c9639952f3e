//! A note's own tables: published, simulated and measured figures side by side, and whether each
//! table holds.

use std::fmt::Write;

use ringfence_studies::claims::{Document, NoteLine, NoteTable};
use ringfence_studies::reproduce::simulated::Seconds;
use ringfence_studies::reproduce::{Agreement, Measured, Row};

use crate::claims::markdown::escaped;
use crate::numbers::{slowdown_figure, time_figure};
use crate::print::Style;
use crate::print::style::Paint;
use crate::print::table::{Cell, Column, Table as Grid};
use crate::print::text::{faint, heading, paragraph, plural, section};
use crate::reproduce::brief::agrees;
use crate::reproduce::text::{Which, agreement, case, changes, instead};

/// A document, and its tables.
pub type Note<'a> = (&'a Document, Vec<NoteTable>);

const HEADS: [&str; 5] = ["case", "published", "simulated", "agrees", "measured"];

const LEGEND: &str = "Changes are of the time, with 95 % intervals. 'agrees' compares the \
                      simulated change with the published one: its direction, and whether its \
                      size is at least half and at most twice the published one.";

/// A note's tables in the terminal, a row for each figure.
pub fn note((document, tables): &Note, style: &Style) -> String {
    let mut out = String::new();
    heading(&mut out, &document.title, style);
    for table in tables {
        section(&mut out);
        heading(&mut out, &table.question, style);
        paragraph(&mut out, 0, &says(table), style);
        let columns = HEADS.iter().enumerate().map(|(place, head)| match place {
            0 => Column::text(*head, 10),
            _ => Column::left(*head),
        });
        let mut grid = Grid::new(columns.collect());
        for line in rows(table) {
            let cells = [line.name, line.published, line.simulated].map(Cell::new);
            let last = [Cell::painted(line.agrees.0, line.agrees.1), Cell::new(line.measured)];
            grid.row([&cells[..], &last].concat());
        }
        out.push_str(&grid.render(style));
    }
    section(&mut out);
    let claims = format!("What the document claims: ringfence notes claims {}", document.id);
    match tables.is_empty() {
        true => paragraph(&mut out, 0, &format!("It has no figures. {claims}"), style),
        false => faint(&mut out, &format!("{LEGEND} {claims}"), style),
    }
    out
}

/// All notes in the terminal: whether each table holds.
pub fn notes(notes: &[Note], style: &Style) -> String {
    let mut out = String::new();
    for (document, tables) in notes {
        section(&mut out);
        heading(&mut out, &format!("{}  {}", document.id, document.title), style);
        for table in tables {
            paragraph(&mut out, 2, &table.question, style);
            paragraph(&mut out, 4, &says(table), style);
        }
        if tables.is_empty() {
            paragraph(&mut out, 2, "It has no figures, only claims.", style);
        }
    }
    section(&mut out);
    faint(&mut out, "A note's tables: ringfence notes show 002", style);
    out
}

/// All notes as a page of the documentation.
pub fn notes_markdown(notes: &[Note]) -> String {
    let mut out = format!(
        "# The notes' tables\n\n\
         Every figure of the documents that Ringfence began with, next to what was simulated and \
         measured of it. `ringfence notes show --markdown docs/evidence/notes.md`\n\
         writes this page from the datasets in `results/`. \
         [Published claims](claims.md) has what the documents say in words, and\n\
         [Published figures](../guide/published-figures.md) how figures are compared.\n\n\
         {LEGEND}\n"
    );
    for (document, tables) in notes {
        let _ = write!(out, "\n## {}\n", escaped(&document.title));
        if tables.is_empty() {
            out.push_str("\nIt has no figures, only claims.\n");
        }
        for table in tables {
            let _ = write!(
                out,
                "\n### {}\n\n{}\n\n| {} |\n|{}\n",
                escaped(&table.question),
                escaped(&says(table)),
                HEADS.join(" | "),
                "---|".repeat(HEADS.len())
            );
            for line in rows(table) {
                let cells =
                    [&line.name, &line.published, &line.simulated, line.agrees.0, &line.measured];
                let _ = writeln!(out, "| {} |", cells.map(escaped).join(" | "));
            }
        }
    }
    out
}

// A row of a table, in words.
struct Shown {
    name: String,
    published: String,
    simulated: String,
    agrees: (&'static str, Paint),
    measured: String,
}

fn rows(table: &NoteTable) -> Vec<Shown> {
    // What others are compared with is part of their figures, unless it is itself a figure.
    let stands = |line: &&NoteLine| line.seconds.is_some() || line.published[0].0.against.is_some();
    let lines: Vec<&NoteLine> = table.lines.iter().filter(stands).collect();
    let all: Vec<Vec<&str>> = lines.iter().map(|line| parts(line)).collect();
    // What all cases have in common tells none of them from the others.
    let in_all = |part: &str| all.len() > 1 && all.iter().all(|parts| parts.contains(&part));
    let name = |line: &NoteLine| {
        let own: Vec<&str> = parts(line).into_iter().filter(|part| !in_all(part)).collect();
        // A number alone says nothing.
        match own[..] {
            [one] if let Some((role, count)) = one.split_once(".count=") => {
                format!("{count} x {role}")
            }
            _ => case(&own.join("; ")),
        }
    };
    let names: Vec<String> = lines.iter().map(|line| name(line)).collect();
    let shown = |(line, name): (&&NoteLine, &String)| Shown {
        // Two quantities can be of one case.
        name: match names.iter().filter(|other| *other == name).count() {
            1 => name.clone(),
            _ => format!("{name}, {}", line.published[0].0.quantity),
        },
        published: published(line),
        simulated: match &line.seconds {
            Some(seconds) => in_seconds(seconds),
            None => figure(&line.simulated, OWN),
        },
        agrees: match compared(&line.simulated, OWN) {
            Some(found) => agrees(found),
            None => ("", Paint::Faint),
        },
        measured: figure(&line.measured, which(&line.measured)),
    };
    lines.iter().zip(&names).map(shown).collect()
}

fn parts(line: &NoteLine) -> Vec<&str> {
    line.published[0].0.case.split("; ").collect()
}

fn published(line: &NoteLine) -> String {
    let changes = changes(line.published.iter().filter_map(|(_, ratio)| *ratio));
    match (&line.seconds, changes.as_str()) {
        (None, _) => changes,
        (Some(_), "") => format!("{:.2} s", line.published[0].0.value),
        (Some(_), _) => format!("{:.2} s, {changes}", line.published[0].0.value),
    }
}

fn in_seconds(seconds: &Seconds) -> String {
    match seconds {
        Seconds::Time(of) => time_figure(&of.times(1e9)).to_string(),
        Seconds::NotRun(_) => "not run".into(),
        Seconds::NotEstimable(_) => "-".into(),
    }
}

const OWN: Which = |row| Some(&row.measured);

// Persistent memory's figure; DRAM's where there is no other.
fn which(rows: &[Row]) -> Which {
    match rows.iter().any(|row| matches!(row.measured, Measured::Ratio { .. })) {
        true => OWN,
        false => instead,
    }
}

fn figure(rows: &[Row], which: Which) -> String {
    match rows.first().and_then(which) {
        Some(Measured::Ratio { interval, .. }) => slowdown_figure(interval).to_string(),
        Some(Measured::NotEstimable(_)) => "-".into(),
        Some(Measured::NotRun(_)) => "not run".into(),
        None if rows.is_empty() => String::new(),
        None => "not run".into(),
    }
}

// Whether a figure agrees with what was published of it; `None` where there is no figure.
fn compared(rows: &[Row], which: Which) -> Option<[Option<Agreement>; 2]> {
    let found = rows.first().and_then(which)?;
    let all: Vec<&Row> = rows.iter().collect();
    matches!(found, Measured::Ratio { .. }).then(|| agreement(&all, which))
}

// Whether the table holds, in the simulation and in the measurement.
fn says(table: &NoteTable) -> String {
    let simulated = (table.simulated.as_ref())
        .zip(holds(table, |line| compared(&line.simulated, OWN)))
        .map_or("Not simulated".into(), |(machine, (holds, counts))| {
            format!("Simulated ({}): {holds}, {counts}{}", machine.name, errors(table))
        });
    let is_on_dram = |line: &NoteLine| {
        compared(&line.measured, OWN).is_none() && compared(&line.measured, instead).is_some()
    };
    let on_dram = match table.lines.iter().any(is_on_dram) {
        true => ", DRAM in place of persistent memory",
        false => "",
    };
    let measured = (table.measured.as_ref())
        .zip(holds(table, |line| compared(&line.measured, which(&line.measured))))
        .map_or_else(
            || format!("Not measured{}", because(table)),
            |(machine, (holds, counts))| {
                format!("Measured ({}{on_dram}): {holds}, {counts}", machine.name)
            },
        );
    format!("{simulated}. {measured}.")
}

fn because(table: &NoteTable) -> String {
    let rows = table.lines.iter().flat_map(|line| &line.measured);
    let mut reasons = rows.filter_map(|row| match &row.measured {
        Measured::NotRun(why) => Some(format!(", because {why}")),
        _ => None,
    });
    reasons.next().unwrap_or_default()
}

// Whether a table's changes are the published ones, and how many; `None` where there is no figure.
fn holds(
    table: &NoteTable,
    of: impl Fn(&NoteLine) -> Option<[Option<Agreement>; 2]>,
) -> Option<(&'static str, String)> {
    let found: Vec<_> = table.lines.iter().filter_map(of).collect();
    let count = |wanted: Option<Agreement>| found.iter().filter(|[way, _]| *way == wanted).count();
    let (right, wrong) = (count(Some(Agreement::Agrees)), count(Some(Agreement::Differs)));
    let word = match (right, wrong) {
        _ if found.is_empty() => return None,
        _ if right == found.len() => "holds",
        (0, 0) => "undecided",
        (0, _) if count(None) == 0 => "does not hold",
        _ => "holds in part",
    };
    let both = [Some(Agreement::Agrees); 2];
    let size = found.iter().filter(|found| **found == both).count();
    let changes = plural(found.len(), "change");
    let also = match right {
        0 => String::new(),
        _ => format!(", {size} also in size"),
    };
    Some((word, format!("{right} of {changes} agree in direction{also}")))
}

// How far simulated times are from published ones.
fn errors(table: &NoteTable) -> String {
    let error = |line: &NoteLine| match &line.seconds {
        Some(Seconds::Time(time)) => Some((time.value / line.published[0].0.value - 1.0).abs()),
        _ => None,
    };
    let all: Vec<f64> = table.lines.iter().filter_map(error).collect();
    if all.is_empty() {
        return String::new();
    }
    let mean = all.iter().sum::<f64>() / all.len() as f64;
    let worst = all.iter().copied().fold(0.0, f64::max);
    format!("; times off by {:.0} % in the mean, {:.0} % at worst", mean * 100.0, worst * 100.0)
}
