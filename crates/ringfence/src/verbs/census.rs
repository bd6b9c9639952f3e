//! `census`: which flushes, fences, non-temporal stores and locked instructions code has.

use std::path::{Path, PathBuf};

use ringfence_json as json;
use ringfence_trace::census::{self, CensusError};

use crate::args::Census;
use crate::failure::Failure;
use crate::output;

pub fn run(asked: &Census) -> Result<(), Failure> {
    let style = output::style();
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
    match asked.json {
        true => output::print_json(&json::census(&found)),
        false => output::print(&ringfence_report::census(&found, asked.all, &style)),
    }
}

// Whatever cannot be read was named.
fn failure(error: CensusError) -> Failure {
    Failure::Usage(error.to_string())
}
