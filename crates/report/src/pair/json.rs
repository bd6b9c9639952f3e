//! Pairs and the advice as JSON.

use std::path::Path;

use ringfence_studies::pair::{Outcome, Question};
use serde::Serialize;

/// `pair`, and `show` of its folder.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "schema", rename = "ringfence/pairs/3")]
pub(crate) struct Pairs<'a> {
    /// The folder of the samples, or of several such folders.
    dataset: String,
    /// The question.
    question: &'a Question,
    /// Which tasks tolerate each other, the advice, and its gain.
    outcome: &'a Outcome,
}

/// The pairwise interference, the datasets in `dir`.
pub fn pairs<'a>(
    question: &'a Question,
    outcome: &'a Outcome,
    dir: &Path,
) -> impl Serialize + use<'a> {
    Pairs { dataset: dir.display().to_string(), question, outcome }
}
