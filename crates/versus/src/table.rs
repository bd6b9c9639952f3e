//! `runs.parquet`: a row for each run, warm-up and the shell's starts included.

use std::path::Path;

use ringfence_dataset::DatasetError;
use ringfence_dataset::table::{self, Columns, Values};
use ringfence_experiment::Error;

use crate::case::Case;
use crate::findings::{Findings, Measure};
use crate::order::Slot;
use crate::run::{Run, Took};

/// The version of the table, in the key `ringfence.versus` of the file.
pub const VERSION: u32 = 1;

/// Writes the table, whole or not at all.
///
/// # Errors
/// Where it cannot be written.
pub fn write(
    path: &Path,
    findings: &Findings,
    cases: &[Case],
    runs: &[Run],
) -> Result<(), DatasetError> {
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
    let signed = |of: fn(&Took) -> Option<i32>| {
        Values::Signed(runs.iter().map(|run| of(&run.took)).collect())
    };
    let long =
        |of: fn(&Took) -> Option<u64>| Values::Long(runs.iter().map(|run| of(&run.took)).collect());
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

/// A file that does not hold what it should.
pub(crate) fn damaged(path: &Path, why: &str) -> Error {
    Error::usage(format!("{}: {why}: restore the original", path.display()))
}

/// The runs of a table again, with the commands of the answer that it belongs to.
///
/// # Errors
/// One sentence where it cannot be read.
pub fn read(path: &Path, commands: &[Measure]) -> Result<Vec<Run>, Error> {
    let wrong = |why: String| damaged(path, &why);
    path.metadata().map_err(|error| wrong(error.to_string()).because(error))?;
    let columns = table::read(path, &COLUMNS)
        .map_err(|error| Error::usage(format!("{error}: restore the original")).because(error))?;
    let rows = Rows(columns);
    let known: Vec<_> =
        commands.iter().map(|one| (one.case.role.clone(), parameters(&one.case))).collect();
    let (roles, settings) = (rows.text("role"), rows.text("parameters"));
    let slot = |row: usize| {
        let is_it = |known: &(String, String)| {
            (&known.0, Some(&known.1)) == (&roles[row], settings.get(row))
        };
        match known.iter().position(is_it) {
            None if roles[row] == "shell" => Some(Slot::Shell),
            place => place.map(Slot::Case),
        }
    };
    let run = |row: usize| {
        let wrong = |why: &str| wrong(format!("row {} {why}", row + 1));
        let slot = slot(row).ok_or_else(|| wrong("belongs to no command of the answer"))?;
        rows.run(slot, row).ok_or_else(|| wrong("lacks a value"))
    };
    (0..roles.len()).map(run).collect()
}

// What is read of it.
const COLUMNS: [&str; 19] = [
    "role",
    "parameters",
    "round",
    "position",
    "warm_up",
    "began",
    "wall_ns",
    "user_ns",
    "system_ns",
    "peak_memory_bytes",
    "memory_floor_bytes",
    "minor_faults",
    "major_faults",
    "voluntary_switches",
    "involuntary_switches",
    "instructions",
    "cycles",
    "exit_code",
    "signal",
];

struct Rows(Columns);

impl Rows {
    fn column(&self, name: &str) -> Option<&Values> {
        self.0.iter().find(|(own, _)| *own == name).map(|(_, values)| values)
    }

    fn text(&self, name: &str) -> Vec<String> {
        match self.column(name) {
            Some(Values::Text(all)) => {
                all.iter().map(|text| text.clone().unwrap_or_default()).collect()
            }
            _ => Vec::new(),
        }
    }

    fn number(&self, name: &str, row: usize) -> Option<u64> {
        match self.column(name)? {
            Values::Count(all) => (*all.get(row)?).map(u64::from),
            Values::Long(all) => *all.get(row)?,
            Values::Flag(all) => (*all.get(row)?).map(u64::from),
            _ => None,
        }
    }

    // None where a value is missing that every run has.
    fn run(&self, slot: Slot, row: usize) -> Option<Run> {
        let number = |name| self.number(name, row);
        let small = |name| u32::try_from(number(name)?).ok();
        let took = Took {
            wall_ns: number("wall_ns")?,
            user_ns: number("user_ns")?,
            system_ns: number("system_ns")?,
            peak_memory: number("peak_memory_bytes")?,
            memory_floor: number("memory_floor_bytes")?,
            minor_faults: number("minor_faults")?,
            major_faults: number("major_faults")?,
            voluntary_switches: number("voluntary_switches")?,
            involuntary_switches: number("involuntary_switches")?,
            instructions: number("instructions"),
            cycles: number("cycles"),
            code: small("exit_code").map(|code| code as i32),
            signal: small("signal").map(|signal| signal as i32),
            left_behind: Vec::new(),
        };
        let (round, place, began_unix_ns) = (small("round")?, small("position")?, number("began")?);
        Some(Run { slot, round, place, warm_up: number("warm_up")? == 1, began_unix_ns, took })
    }
}
