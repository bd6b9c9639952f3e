//! Crash states of a program, as JSON.

use std::path::Path;

use ringfence_crash::Answer;
use serde::Serialize;

/// `crash`, and `show` of its folder: in which states that a crash can leave the program's recovery
/// fails.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "schema", rename = "ringfence/crash/1")]
pub(crate) struct Crash<'a> {
    /// The folder of the result.
    folder: String,
    /// The answer.
    crash: &'a Answer,
}

/// The answer in the folder `dir`.
pub fn crash<'a>(answer: &'a Answer, dir: &Path) -> impl Serialize + use<'a> {
    Crash { folder: dir.display().to_string(), crash: answer }
}
