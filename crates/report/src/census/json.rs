//! What code has.

use std::path::Path;

use crate::Told;
use ringfence_trace::census::dynamic::checked::Checked;
use ringfence_trace::census::dynamic::saving::Saving;
use ringfence_trace::census::dynamic::{PlaceDiff, Run, RunDiff, RunTotal};
use ringfence_trace::census::{Census, Change};
use ringfence_trace::code::Counts;
use serde::Serialize;

use crate::json::Document;

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

/// `census --diff` of two traces: where the runs differ.
pub fn census_run_diff<'r>(before: &Path, after: &Path, diff: &'r RunDiff) -> impl Serialize + 'r {
    #[derive(Serialize)]
    struct Side<'a> {
        trace: String,
        #[serde(flatten)]
        run: &'a RunTotal,
    }
    #[derive(Serialize)]
    struct Body<'a> {
        before: Side<'a>,
        after: Side<'a>,
        functions: &'a [PlaceDiff],
        sites: &'a [PlaceDiff],
        callers: &'a [PlaceDiff],
    }
    let side = |trace: &Path, run| Side { trace: trace.display().to_string(), run };
    let (before, after) = (side(before, &diff.before), side(after, &diff.after));
    let RunDiff { functions, sites, callers, .. } = diff;
    Document {
        schema: "ringfence/census-run-diff/1",
        body: Body { before, after, functions, sites, callers },
    }
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
    let (saving, no_saving) = (
        saving.and_then(|saving| saving.as_ref().ok()),
        saving.and_then(|saving| saving.as_ref().err()),
    );
    Document { schema: "ringfence/census-run/1", body: Body { run, saving, no_saving, checked } }
}
