//! What differs between two recorded runs, such as those of two builds.
//!
//! Addresses differ between builds, so places are matched by name: function, source file and line.
//! Where an edit moved lines, the places of a function are matched in their order: first those that
//! did the same, then those between them.

use std::collections::BTreeMap;

use serde::Serialize;
use similar::{Algorithm, DiffOp, capture_diff_slices};

use super::{AtPlace, Executed, Run};
use crate::events::Location;

/// What differs between two runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RunDiff {
    /// The older run.
    pub before: RunTotal,
    /// The newer run.
    pub after: RunTotal,
    /// By the source function of the instruction; the largest difference first.
    pub functions: Vec<PlaceDiff>,
    /// By instruction.
    pub sites: Vec<PlaceDiff>,
    /// By the innermost call from outside of the program or library that the instruction is in, or
    /// else by instruction.
    pub callers: Vec<PlaceDiff>,
}

/// A run as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunTotal {
    /// The command that was recorded.
    pub command: Vec<String>,
    /// Threads that did anything.
    pub threads: u64,
    /// Events of all kinds.
    pub events: u64,
    /// Lines that were stored to and not flushed yet, at most at once.
    pub most_dirty_lines: u64,
    /// Everything together.
    pub total: Executed,
}

/// A place where the two runs differ.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PlaceDiff {
    /// Its name: function, source file and line, as far as they are known.
    pub place: String,
    /// The old counts there; all 0 if there was no such place.
    pub before: Executed,
    /// What is executed there now.
    pub after: Executed,
}

/// The places where two runs differ.
pub fn diff(before: &Run, after: &Run) -> RunDiff {
    RunDiff {
        before: total(before),
        after: total(after),
        functions: by_name(&before.sites, &after.sites, function),
        sites: by_line(&before.sites, &after.sites),
        callers: by_line(&before.callers, &after.callers),
    }
}

fn total(run: &Run) -> RunTotal {
    let Run { command, threads, events, most_dirty_lines, total, .. } = run;
    RunTotal {
        command: command.clone(),
        threads: *threads,
        events: *events,
        most_dirty_lines: *most_dirty_lines,
        total: *total,
    }
}

fn function(location: &Location) -> String {
    let known = location.inlined.as_ref().or(location.function.as_ref());
    known.cloned().unwrap_or_else(|| Location::name(location))
}

// What is executed at each place of a name, before and after.
fn by_name(before: &[AtPlace], after: &[AtPlace], name: fn(&Location) -> String) -> Vec<PlaceDiff> {
    let mut all: BTreeMap<String, [Executed; 2]> = BTreeMap::new();
    for (side, rows) in [before, after].into_iter().enumerate() {
        for row in rows {
            all.entry(named(row, name)).or_default()[side] += row.executed;
        }
    }
    differing(
        all.into_iter()
            .map(|(place, [before, after])| PlaceDiff { place, before, after })
            .collect(),
    )
}

fn named(row: &AtPlace, name: fn(&Location) -> String) -> String {
    row.location.as_ref().map_or_else(|| "not known".into(), name)
}

// What was executed at the lines of a function, in their order.
type Lines = BTreeMap<(u32, String), Executed>;

// The same by source line, where lines may have moved.
fn by_line(before: &[AtPlace], after: &[AtPlace]) -> Vec<PlaceDiff> {
    let mut functions: BTreeMap<[String; 3], [Lines; 2]> = BTreeMap::new();
    for (side, rows) in [before, after].into_iter().enumerate() {
        for row in rows {
            let place = named(row, Location::name);
            let known = row.location.as_ref().and_then(without_line);
            let (function, line) =
                known.unwrap_or_else(|| ([place.clone(), String::new(), String::new()], 0));
            *functions.entry(function).or_default()[side].entry((line, place)).or_default() +=
                row.executed;
        }
    }
    let mut all = Vec::new();
    for [before, after] in functions.into_values() {
        matched(before, after, &mut all);
    }
    differing(all)
}

fn differing(mut differing: Vec<PlaceDiff>) -> Vec<PlaceDiff> {
    differing.retain(|place| place.before != place.after);
    differing.sort_by_key(|one| {
        let by = |get: fn(&Executed) -> u64| get(&one.before).abs_diff(get(&one.after));
        std::cmp::Reverse((by(Executed::weight), by(|executed| executed.stores + executed.locked)))
    });
    differing
}

// The function with its source file, and the line, where all are known.
fn without_line(location: &Location) -> Option<([String; 3], u32)> {
    let (function, (file, line)) = (location.function.clone()?, location.source()?);
    Some(([function, location.inlined.clone().unwrap_or_default(), file.into()], line))
}

// What differs between the lines of a function.
fn matched(mut before: Lines, mut after: Lines, found: &mut Vec<PlaceDiff>) {
    let same = |other: &Lines, place, executed: &Executed| other.get(place) == Some(executed);
    let there: Vec<_> = before
        .iter()
        .filter(|(place, executed)| same(&after, place, executed))
        .map(|(place, _)| place.clone())
        .collect();
    for place in there {
        before.remove(&place);
        after.remove(&place);
    }
    let list = |lines: Lines| -> Vec<(String, Executed)> {
        lines.into_iter().map(|((_, place), executed)| (place, executed)).collect()
    };
    let (before, after) = (list(before), list(after));
    let pairs = unchanged(&before, &after);
    let (mut first, mut second) = (0, 0);
    for (one, other) in pairs.into_iter().chain([(before.len(), after.len())]) {
        between(&before[first..one], &after[second..other], found);
        (first, second) = (one + 1, other + 1);
    }
}

// Pairs of lines that did the same, as many as there are in one order.
fn unchanged(before: &[(String, Executed)], after: &[(String, Executed)]) -> Vec<(usize, usize)> {
    let executed = |lines: &[(String, Executed)]| {
        lines.iter().map(|(_, executed)| *executed).collect::<Vec<_>>()
    };
    let differences = capture_diff_slices(Algorithm::Myers, &executed(before), &executed(after));
    let pairs = differences.into_iter().filter_map(|difference| match difference {
        DiffOp::Equal { old_index, new_index, len } => {
            Some((0..len).map(move |at| (old_index + at, new_index + at)))
        }
        _ => None,
    });
    pairs.flatten().collect()
}

// Lines that did something else: by their names, or in order where there are as many before and
// after.
fn between(
    before: &[(String, Executed)],
    after: &[(String, Executed)],
    found: &mut Vec<PlaceDiff>,
) {
    let mut push =
        |place: &str, before, after| found.push(PlaceDiff { place: place.into(), before, after });
    if before.len() == after.len() {
        return before
            .iter()
            .zip(after)
            .for_each(|((_, before), (place, after))| push(place, *before, *after));
    }
    let mut all: BTreeMap<&str, [Executed; 2]> = BTreeMap::new();
    for (side, lines) in [before, after].into_iter().enumerate() {
        for (place, executed) in lines {
            all.entry(place).or_default()[side] = *executed;
        }
    }
    all.into_iter().for_each(|(place, [before, after])| push(place, before, after));
}
