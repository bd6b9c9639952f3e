//! What differs between two recorded runs, such as those of two builds.
//!
//! Addresses differ between builds, so places are matched by what people call them: function, source file and line. An edit
//! that moves lines leaves the functions' sums as they were, and has what moved as gone and new among the instructions.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{AtPlace, Executed, Run};
use crate::events::Location;

/// What differs between two runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RunDiff {
    /// The older run.
    pub before: RunTotal,
    /// The newer run.
    pub after: RunTotal,
    /// By the function that somebody wrote the instruction in, first what differs most.
    pub functions: Vec<PlaceDiff>,
    /// By instruction.
    pub sites: Vec<PlaceDiff>,
    /// By the innermost call from outside of the program or library that the instruction is in, or else by instruction.
    pub callers: Vec<PlaceDiff>,
}

/// A run as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
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
pub struct PlaceDiff {
    /// Its name.
    pub place: String,
    /// What was executed there before; all 0 where there was no such place.
    pub before: Executed,
    /// What is executed there now.
    pub after: Executed,
}

/// The places where two runs differ.
pub fn diff(before: &Run, after: &Run) -> RunDiff {
    RunDiff {
        before: total(before),
        after: total(after),
        functions: places(&before.sites, &after.sites, function),
        sites: places(&before.sites, &after.sites, Location::name),
        callers: places(&before.callers, &after.callers, Location::name),
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

fn places(before: &[AtPlace], after: &[AtPlace], name: fn(&Location) -> String) -> Vec<PlaceDiff> {
    let mut all: BTreeMap<String, [Executed; 2]> = BTreeMap::new();
    for (side, rows) in [before, after].into_iter().enumerate() {
        for row in rows {
            let place = row.location.as_ref().map_or_else(|| "not known".into(), name);
            all.entry(place).or_default()[side] += row.executed;
        }
    }
    let differing = all.into_iter().filter(|(_, [before, after])| before != after);
    let mut differing: Vec<PlaceDiff> =
        differing.map(|(place, [before, after])| PlaceDiff { place, before, after }).collect();
    differing.sort_by_key(|one| {
        let by = |get: fn(&Executed) -> u64| get(&one.before).abs_diff(get(&one.after));
        std::cmp::Reverse((by(Executed::weight), by(|executed| executed.stores + executed.locked)))
    });
    differing
}
