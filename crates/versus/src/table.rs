//! `runs.parquet`: a row for each run, warm-up and the shell's starts included.

use std::path::Path;

use ringfence_dataset::DatasetError;
use ringfence_dataset::table::{self, Columns, Values};

use crate::case::Case;
use crate::findings::Findings;
use crate::order::Slot;
use crate::run::{Run, Took};

/// The version of the table, in the key `ringfence.versus` of the file.
pub const VERSION: u32 = 1;

/// Writes the table, whole or not at all.
///
/// # Errors
/// Where it cannot be written.
pub fn write(path: &Path, findings: &Findings, cases: &[Case], runs: &[Run]) -> Result<(), DatasetError> {
    table::write(path, &columns(findings, cases, runs), Some(("ringfence.versus", VERSION)))
}

fn columns(findings: &Findings, cases: &[Case], runs: &[Run]) -> Columns {
    let case = |run: &Run| match run.slot {
        Slot::Case(case) => Some(&cases[case]),
        Slot::Shell => None,
    };
    let text = |of: &dyn Fn(&Run) -> Option<String>| Values::Text(runs.iter().map(of).collect());
    let of_case = |of: &dyn Fn(&Case) -> String, shell: &str| {
        text(&|run| Some(case(run).map_or_else(|| shell.to_owned(), of)))
    };
    let count = |of: fn(&Run) -> u32| Values::Count(runs.iter().map(|run| Some(of(run))).collect());
    let signed =
        |of: fn(&Took) -> Option<i32>| Values::Signed(runs.iter().map(|run| of(&run.took)).collect());
    let long = |of: fn(&Took) -> Option<u64>| Values::Long(runs.iter().map(|run| of(&run.took)).collect());
    vec![
        ("label", text(&|_| findings.label.clone())),
        ("host", text(&|_| Some(findings.host.clone()))),
        ("role", of_case(&|case| case.role.clone(), "shell")),
        ("name", of_case(&|case| case.name.clone(), "")),
        ("command", of_case(&|case| case.command.clone(), "")),
        ("parameters", of_case(&parameters, "")),
        ("shell", text(&|_| Some(findings.shell.clone()))),
        ("round", count(|run| run.round)),
        ("position", count(|run| run.place)),
        ("warm_up", Values::Flag(runs.iter().map(|run| Some(run.warm_up)).collect())),
        ("began", Values::Time(runs.iter().map(|run| Some(run.began_unix_ns)).collect())),
        ("wall_ns", long(|took| Some(took.wall_ns))),
        ("user_ns", long(|took| Some(took.user_ns))),
        ("system_ns", long(|took| Some(took.system_ns))),
        ("peak_memory_bytes", long(|took| Some(took.peak_memory))),
        ("memory_floor_bytes", long(|took| Some(took.memory_floor))),
        ("minor_faults", long(|took| Some(took.minor_faults))),
        ("major_faults", long(|took| Some(took.major_faults))),
        ("voluntary_switches", long(|took| Some(took.voluntary_switches))),
        ("involuntary_switches", long(|took| Some(took.involuntary_switches))),
        ("instructions", long(|took| took.instructions)),
        ("cycles", long(|took| took.cycles)),
        ("exit_code", signed(|took| took.code)),
        ("signal", signed(|took| took.signal)),
    ]
}

/// As one writes them: `threads=2 size=4`.
pub fn parameters(case: &Case) -> String {
    let each = case.parameters.iter().map(|(name, value)| format!("{name}={value}"));
    each.collect::<Vec<_>>().join(" ")
}
