//! `census`: which flushes, fences, non-temporal stores and locked instructions code has, or a recorded program executed.

use std::path::{Path, PathBuf};

use ringfence_json as json;
use ringfence_sysfs::root::FsRoot;
use ringfence_trace::census::dynamic::Run;
use ringfence_trace::census::{self, CensusError, dynamic};
use ringfence_trace::recording::Reader;

use crate::args::Census;
use crate::failure::Failure;
use crate::output;
use crate::shared::costs;

pub fn run(asked: &Census) -> Result<(), Failure> {
    let style = output::style();
    if let (Some(before), [after]) = (&asked.diff, &asked.paths[..]) {
        match (Reader::is_one(before), Reader::is_one(after)) {
            (true, true) => return of_two_traces(before, after, asked),
            (false, false) => {}
            (true, false) => return Err(unlike(before, after)),
            (false, true) => return Err(unlike(after, before)),
        }
    }
    if let Some(trace) = asked.paths.iter().chain(&asked.diff).find(|path| Reader::is_one(path)) {
        return of_trace(trace, asked);
    }
    if asked.costs.is_some() {
        return Err(Failure::Usage("--costs is for a trace: name one".into()));
    }
    if let Some(before) = &asked.diff {
        let one = |path: &PathBuf| census::of(std::slice::from_ref(path)).map_err(failure);
        let [after] = &asked.paths[..] else {
            return Err(Failure::Usage("--diff compares with one PATH: name the newer build alone".into()));
        };
        let changes = census::diff(&one(before)?, &one(after)?);
        return match asked.json {
            true => output::print_json(&json::census_diff(before, after, &changes)),
            false => output::print(&ringfence_report::census_diff(&changes, &style)),
        };
    }
    let mut found = census::of(&asked.paths).map_err(failure)?;
    for name in &asked.package {
        found.add(census::of_package(Path::new("/"), name).map_err(failure)?);
    }
    if let Some(here) = ringfence_trace::code::of_machine(&FsRoot::host()) {
        found.ask(&here);
    }
    match asked.json {
        true => output::print_json(&json::census(&found)),
        false => output::print(&ringfence_report::census(&found, asked.all, &style)),
    }
}

fn of_trace(trace: &Path, asked: &Census) -> Result<(), Failure> {
    if asked.paths.len() > 1 || !asked.package.is_empty() || asked.diff.is_some() {
        let what = format!("{} is a trace: name it alone", trace.display());
        return Err(Failure::Usage(what));
    }
    let run = executed(trace)?;
    let saving = asked.costs.as_ref().map(|survey| costs::saving(&run, survey)).transpose()?;
    match asked.json {
        true => output::print_json(&json::census_run(&run, saving.as_ref())),
        false => {
            output::print(&ringfence_report::executed(&run, saving.as_ref(), asked.all, &output::style()))
        }
    }
}

fn executed(trace: &Path) -> Result<Run, Failure> {
    let run = Reader::open(trace).and_then(|trace| dynamic::of(&trace));
    run.map_err(|error| Failure::Usage(error.to_string()))
}

fn of_two_traces(before: &Path, after: &Path, asked: &Census) -> Result<(), Failure> {
    let diff = dynamic::diff(&executed(before)?, &executed(after)?);
    match asked.json {
        true => output::print_json(&json::census_run_diff(before, after, &diff)),
        false => output::print(&ringfence_report::executed_diff(&diff, &output::style())),
    }
}

fn unlike(trace: &Path, other: &Path) -> Failure {
    let (trace, other) = (trace.display(), other.display());
    Failure::Usage(format!(
        "{trace} is a trace and {other} is not: --diff compares two builds, or two traces"
    ))
}

// Whatever cannot be read was named.
fn failure(error: CensusError) -> Failure {
    Failure::Usage(error.to_string())
}
