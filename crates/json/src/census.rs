//! What code has.

use std::path::Path;

use ringfence_trace::census::dynamic::Run;
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
pub fn census_run(run: &Run) -> impl Serialize {
    Document { schema: "ringfence/census-run/1", body: run }
}
