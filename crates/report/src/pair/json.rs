//! Pairs and the advice as JSON.

use std::path::Path;

use ringfence_studies::pair::{Outcome, Question};
use serde::Serialize;

use crate::json::Document;

/// The pairwise interference, the datasets in `dir`.
pub fn pairs<'a>(
    question: &'a Question,
    outcome: &'a Outcome,
    dir: &Path,
) -> impl Serialize + use<'a> {
    #[derive(Serialize)]
    struct Pairs<'a> {
        dataset: String,
        question: &'a Question,
        outcome: &'a Outcome,
    }
    let dataset = dir.display().to_string();
    Document { schema: "ringfence/pairs/3", body: Pairs { dataset, question, outcome } }
}
