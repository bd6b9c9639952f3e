//! What code has.

use std::path::Path;

use ringfence_report::Told;
use ringfence_trace::census::dynamic::Run;
use ringfence_trace::census::dynamic::checked::Checked;
use ringfence_trace::census::dynamic::saving::Saving;
use ringfence_trace::census::{Census, Change};
use ringfence_trace::code::Counts;
use serde::Serialize;

use super::Document;

/// `census`: files and functions, with every site.
pub fn census(found: &Census) -> impl Serialize {
    #[derive(Serialize)]
    struct Body<'a> {
        total: Counts,
        #[serde(flatten)]
        census: &'a Census,
    }
    Document { schema: "ringfence/census/1", body: Body { total: found.total(), census: found } }
}

/// `census --diff`: the functions that differ.
pub fn census_diff(before: &Path, after: &Path, changes: &[Change]) -> impl Serialize {
    #[derive(Serialize)]
    struct Body<'a> {
        before: String,
        after: String,
        changes: &'a [Change],
    }
    let (before, after) = (before.display().to_string(), after.display().to_string());
    Document { schema: "ringfence/census-diff/1", body: Body { before, after, changes } }
}

/// `census` of a trace: what was executed.
pub fn census_run<'r>(told: &Told<'r>) -> impl Serialize + use<'r> {
    #[derive(Serialize)]
    struct Body<'a> {
        #[serde(flatten)]
        run: &'a Run,
        saving: Option<&'a Saving>,
        no_saving: Option<&'a String>,
        checked: Option<&'a Checked>,
    }
    let Told { run, saving, checked } = *told;
    let (saving, no_saving) =
        (saving.and_then(|saving| saving.as_ref().ok()), saving.and_then(|saving| saving.as_ref().err()));
    Document { schema: "ringfence/census-run/1", body: Body { run, saving, no_saving, checked } }
}
