//! One plan on two machines, as JSON.

use std::path::Path;

use ringfence_studies::whatif;
use serde::Serialize;

/// `whatif`, and `show` of its folder: one plan on a described machine, and on the same with
/// changes. Nothing was measured.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "schema", rename = "ringfence/whatif/1")]
pub(crate) struct WhatIf<'a> {
    /// The folder of both datasets.
    dataset: String,
    /// The answer.
    whatif: &'a whatif::WhatIf,
}

/// One plan on a machine and on the changed one, the datasets in `dir`.
pub fn whatif<'a>(found: &'a whatif::WhatIf, dir: &Path) -> impl Serialize + use<'a> {
    WhatIf { dataset: dir.display().to_string(), whatif: found }
}
