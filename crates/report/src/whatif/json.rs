//! One plan on two machines, as JSON.

use std::path::Path;

use ringfence_studies::whatif::WhatIf;
use serde::Serialize;

use crate::json::Document;

/// One plan on a machine and on the changed one, the datasets in `dir`.
pub fn whatif<'a>(found: &'a WhatIf, dir: &Path) -> impl Serialize + use<'a> {
    #[derive(Serialize)]
    struct Found<'a> {
        dataset: String,
        whatif: &'a WhatIf,
    }
    let dataset = dir.display().to_string();
    Document { schema: "ringfence/whatif/1", body: Found { dataset, whatif: found } }
}
