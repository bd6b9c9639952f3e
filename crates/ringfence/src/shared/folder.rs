//! What a folder holds: the answer of a verb, or datasets alone.

use std::path::{Path, PathBuf};

use ringfence_dataset::{Dataset, text_file};
use ringfence_studies::prove::{self, Files, Proof};

use crate::failure::Failure;

/// The verb whose answer a folder holds, where it is more than a dataset or several.
pub fn kind(dir: &Path) -> Option<String> {
    let text = text_file::read(&dir.join("question.json"), text_file::LONGEST).ok()?;
    let value: serde_json::Value = serde_json::from_str(&text).ok()?;
    Some(value.get("kind")?.as_str()?.to_owned())
}

/// The answer of `prove` again, from its folder.
pub fn proof(dir: &Path) -> Result<Proof, Failure> {
    let files = Files::of(dir);
    let record = files.read().map_err(Failure::Failed)?;
    // Where the victim's control has refused a verdict, there is no look.
    if let Some(control) = record.control.as_ref().filter(|_| !files.look().exists()) {
        return Ok(Proof::refused(&record, control));
    }
    let look = Dataset::open(&files.look())?;
    let open = |path: PathBuf| -> Result<Option<Dataset>, Failure> {
        if path.exists() { Ok(Some(Dataset::open(&path)?)) } else { Ok(None) }
    };
    let levers = open(files.levers())?;
    let mut confirmations = Vec::new();
    while let Some(dataset) = open(files.confirmation(confirmations.len()))? {
        confirmations.push(dataset);
    }
    let confirmations: Vec<prove::Stage> = confirmations.iter().map(prove::Stage::from).collect();
    Ok(Proof::new(&record, (&look).into(), levers.as_ref().map(prove::Stage::from), &confirmations))
}
