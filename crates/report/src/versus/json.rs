//! Which of several commands is slower.

use std::path::Path;

use ringfence_versus::Findings;
use serde::Serialize;

/// `versus`, and `show` of its folder.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "schema", rename = "ringfence/versus/1")]
pub(crate) struct Versus<'a> {
    /// The folder with every run.
    dataset: String,
    /// What was found.
    versus: &'a Findings,
}

/// `versus`, and `show` of its folder.
pub fn versus(findings: &Findings, dir: &Path) -> impl Serialize {
    Versus { dataset: dir.display().to_string(), versus: findings }
}
