//! What code has.

use std::path::Path;

use crate::Told;
use ringfence_trace::census::dynamic::checked::Checked;
use ringfence_trace::census::dynamic::saving::Saving;
use ringfence_trace::census::dynamic::{PlaceDiff, Run, RunDiff, RunTotal};
use ringfence_trace::census::{self, Change};
use ringfence_trace::code::Counts;
use serde::Serialize;

/// `census`: what the code of program files has. Nothing was run.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "schema", rename = "ringfence/census/1")]
pub(crate) struct Census<'a> {
    /// How many there are in all files.
    total: Counts,
    #[serde(flatten)]
    census: &'a census::Census,
}

/// `census --diff`: functions whose counts differ.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "schema", rename = "ringfence/census-diff/1")]
pub(crate) struct CensusDiff<'a> {
    /// The older build.
    before: String,
    /// The newer build.
    after: String,
    /// The functions that differ, by name.
    changes: &'a [Change],
}

/// `census` of a trace: what a program executed while it was recorded.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "schema", rename = "ringfence/census-run/1")]
pub(crate) struct CensusRun<'a> {
    #[serde(flatten)]
    run: &'a Run,
    /// What flushes and fences would cost by other instructions; null unless --costs asks for it
    /// and it is known.
    saving: Option<&'a Saving>,
    /// Why that is not known, where it was requested.
    no_saving: Option<&'a String>,
    /// What other instructions would change, predicted and measured; null unless --check asks for
    /// it.
    checked: Option<&'a Checked>,
}

/// `census --diff` of two traces: where the runs differ. Places are matched by function, source
/// file and line, as addresses differ between builds.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "schema", rename = "ringfence/census-run-diff/1")]
pub(crate) struct CensusRunDiff<'a> {
    /// The older run.
    before: TraceTotal<'a>,
    /// The newer run.
    after: TraceTotal<'a>,
    /// By the source function of the instruction; the largest difference first.
    functions: &'a [PlaceDiff],
    /// By instruction, in the same order.
    sites: &'a [PlaceDiff],
    /// By the innermost call from outside of the program or library that the instruction is in, or
    /// else by instruction; in the same order.
    callers: &'a [PlaceDiff],
}

/// A recorded run as a whole.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct TraceTotal<'a> {
    /// Its folder.
    trace: String,
    #[serde(flatten)]
    run: &'a RunTotal,
}

/// `census`: files and functions, with every site.
pub fn census(found: &census::Census) -> impl Serialize {
    Census { total: found.total(), census: found }
}

/// `census --diff`: the functions that differ.
pub fn census_diff(before: &Path, after: &Path, changes: &[Change]) -> impl Serialize {
    let (before, after) = (before.display().to_string(), after.display().to_string());
    CensusDiff { before, after, changes }
}

/// `census --diff` of two traces: where the runs differ.
pub fn census_run_diff<'r>(before: &Path, after: &Path, diff: &'r RunDiff) -> impl Serialize + 'r {
    let side = |trace: &Path, run| TraceTotal { trace: trace.display().to_string(), run };
    let (before, after) = (side(before, &diff.before), side(after, &diff.after));
    let RunDiff { functions, sites, callers, .. } = diff;
    CensusRunDiff { before, after, functions, sites, callers }
}

/// `census` of a trace: what was executed.
pub fn census_run<'r>(told: &Told<'r>) -> impl Serialize + use<'r> {
    let Told { run, saving, checked } = *told;
    let (saving, no_saving) = (
        saving.and_then(|saving| saving.as_ref().ok()),
        saving.and_then(|saving| saving.as_ref().err()),
    );
    CensusRun { run, saving, no_saving, checked }
}
