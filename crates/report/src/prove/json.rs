//! A proof as JSON.

use std::path::Path;

use ringfence_studies::prove::{self as prove, Kept};
use serde::Serialize;

use crate::json::Document;

/// A proof, its datasets in `dir`; and, where it was made just now, why that ended early, the
/// setting that was left in place, and what another process has set in resctrl meanwhile.
pub fn proof<'a>(
    proof: &'a prove::Proof,
    dir: &Path,
    ended_early: Option<&'a str>,
    kept: Option<&'a Kept>,
    left: &'a [String],
) -> impl Serialize + use<'a> {
    #[derive(Serialize)]
    struct Proof<'a> {
        dataset: String,
        ended_early: Option<&'a str>,
        proof: &'a prove::Proof,
        kept: Option<&'a Kept>,
        left: &'a [String],
    }
    let dataset = dir.display().to_string();
    Document {
        schema: "ringfence/proof/3",
        body: Proof { dataset, ended_early, proof, kept, left },
    }
}
