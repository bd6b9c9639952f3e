//! A proof as JSON.

use std::path::Path;

use ringfence_studies::prove::{self, Kept};
use serde::Serialize;

/// `prove`, and `show` of its folder.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "schema", rename = "ringfence/proof/3")]
pub(crate) struct Proof<'a> {
    /// The folder of the samples, or of several such folders.
    dataset: String,
    /// Why it ended early, if it did; known of what was measured just now.
    ended_early: Option<&'a str>,
    /// The answer with everything that it rests on.
    proof: &'a prove::Proof,
    /// The setting of resctrl, or of the aggressor's own control group, that was left in place
    /// (`--keep`).
    kept: Option<&'a Kept>,
    /// What another process has set in resctrl meanwhile, a sentence each: it was left alone.
    left: &'a [String],
}

/// A proof, its datasets in `dir`; and, where it was made just now, why that ended early, the
/// setting that was left in place, and what another process has set in resctrl meanwhile.
pub fn proof<'a>(
    proof: &'a prove::Proof,
    dir: &Path,
    ended_early: Option<&'a str>,
    kept: Option<&'a Kept>,
    left: &'a [String],
) -> impl Serialize + use<'a> {
    Proof { dataset: dir.display().to_string(), ended_early, proof, kept, left }
}
