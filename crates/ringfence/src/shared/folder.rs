//! What a folder holds: the answer of a verb, or datasets alone.

use std::path::Path;

use ringfence_dataset::text_file;
use ringfence_studies::prove::{Files, Proof};
use ringfence_studies::study::{self, Stage};

use crate::failure::Failure;

/// The verb whose answer a folder holds, where it is more than a dataset or several.
pub fn kind(dir: &Path) -> Option<String> {
    let text = text_file::read(&dir.join("question.json"), text_file::LONGEST).ok()?;
    let value: serde_json::Value = serde_json::from_str(&text).ok()?;
    Some(value.get("kind")?.as_str()?.to_owned())
}

/// The answer of `prove` again, from its folder.
pub fn proof(dir: &Path) -> Result<Proof, Failure> {
    let record = Files::of(dir).read().map_err(Failure::Failed)?;
    // Where the victim's control has refused a verdict, nothing else was measured.
    let refused = record.control.as_ref().is_some_and(|control| control.depends() != Some(true));
    let datasets = match study::datasets(dir) {
        Err(_) if refused => Vec::new(),
        found => found?,
    };
    let stages: Vec<Stage> = datasets.iter().map(Stage::from).collect();
    Ok(Proof::new(&record, &stages))
}
