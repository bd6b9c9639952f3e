//! Which of several commands is slower.

use std::path::Path;

use ringfence_versus::Findings;
use serde::Serialize;

use crate::json::Document;

/// `versus`, and `show` of its folder.
pub fn versus(findings: &Findings, dir: &Path) -> impl Serialize {
    Document {
        schema: "ringfence/versus/1",
        body: Body { dataset: dir.display().to_string(), versus: findings.clone() },
    }
}

#[derive(Serialize)]
struct Body {
    dataset: String,
    versus: Findings,
}
