//! `census`: which flushes, fences, non-temporal stores and locked instructions code has, or a
//! recorded program executed.

mod check;
mod playback;

use std::path::{Path, PathBuf};

use ringfence_experiment::units::Span;
use ringfence_report::json;
use ringfence_report::{Told, html};
use ringfence_system::root::FsRoot;
use ringfence_trace::Profile;
use ringfence_trace::census::{self, Census, CensusError, dynamic};
use ringfence_trace::recording::Reader;

use crate::args;
use crate::failure::Failure;
use crate::output;
use crate::shared::flags::parsed;
use crate::shared::traces::executed;
use crate::shared::{costs, page};

pub fn run(asked: &args::Census) -> Result<(), Failure> {
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
    for (flag, is_there) in [
        ("--costs", asked.costs.is_some()),
        ("--check", asked.check),
        ("--html", asked.html.is_some()),
        ("--rules", asked.rules.is_some()),
    ] {
        if is_there {
            return Err(Failure::usage(format!("{flag} is for a trace: name one")));
        }
    }
    if let Some(before) = &asked.diff {
        let one = |path: &PathBuf| {
            let found = census::of(std::slice::from_ref(path)).map_err(failure)?;
            something(&found).map(|()| found)
        };
        let [after] = &asked.paths[..] else {
            return Err(Failure::usage(
                "--diff compares with one PATH: name the newer build alone",
            ));
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
        true => output::print_json(&json::census(&found))?,
        false => output::print(&ringfence_report::census(&found, asked.all, &style))?,
    }
    something(&found)
}

// A census of nothing is none.
fn something(found: &Census) -> Result<(), Failure> {
    match &found.unread[..] {
        _ if !found.files.is_empty() => Ok(()),
        [] => Err(Failure::usage("no file with code for x86 was found")),
        [one, ..] => {
            let all = found.unread.len();
            let why = format!(
                "none of {all} files with code could be read: {}: {}",
                one.path.display(),
                one.why
            );
            Err(Failure::usage(why))
        }
    }
}

fn of_trace(trace: &Path, asked: &args::Census) -> Result<(), Failure> {
    if asked.paths.len() > 1 || !asked.package.is_empty() || asked.diff.is_some() {
        let what = format!("{} is a trace: name it alone", trace.display());
        return Err(Failure::usage(what));
    }
    let time: Span = parsed("time", asked.time.as_deref().unwrap_or("30s"))?;
    let rules = asked.rules.as_deref().map(|text| parsed("rules", text)).transpose()?;
    let (reader, run) = executed(trace, rules.unwrap_or(Profile::IntelAdr))?;
    let saving = asked.costs.as_ref().map(|survey| costs::saving(&run, survey)).transpose()?;
    let quiet = asked.quiet || asked.json;
    let checked = asked.check.then(|| check::check(trace, &reader, time.0, quiet)).transpose()?;
    let told = Told { run: &run, saving: saving.as_ref(), checked: checked.as_ref() };
    if let Some(path) = &asked.html {
        page::put(path, "--html", || Ok(html::executed(&told)))?;
    }
    match asked.json {
        true => output::print_json(&json::census_run(&told)),
        false => output::print(&ringfence_report::executed(&told, asked.all, &output::style())),
    }
}

fn of_two_traces(before: &Path, after: &Path, asked: &args::Census) -> Result<(), Failure> {
    let run = |trace| executed(trace, Profile::IntelAdr).map(|(_, run)| run);
    let diff = dynamic::diff(&run(before)?, &run(after)?);
    match asked.json {
        true => output::print_json(&json::census_run_diff(before, after, &diff)),
        false => output::print(&ringfence_report::executed_diff(&diff, &output::style())),
    }
}

fn unlike(trace: &Path, other: &Path) -> Failure {
    let (trace, other) = (trace.display(), other.display());
    Failure::usage(format!(
        "{trace} is a trace and {other} is not: --diff compares two builds, or two traces"
    ))
}

// Whatever cannot be read was named.
fn failure(error: CensusError) -> Failure {
    let remedy = match error {
        CensusError::NoCode { .. } => {
            "; name a program, a library, an object file, an archive or a folder of them"
        }
        _ => "",
    };
    Failure::usage(format!("{error}{remedy}"))
}
