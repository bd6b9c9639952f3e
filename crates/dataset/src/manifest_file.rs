//! A manifest as some version wrote it.

use std::path::Path;

use serde_json::Value;

use super::error::DatasetError;
use super::manifest::Manifest;
use super::{MANIFEST, files, formats};

/// Reads that of a folder. The version is looked at first: a newer format may differ in anything
/// else.
pub fn read(dir: &Path) -> Result<Manifest, DatasetError> {
    let path = dir.join(MANIFEST);
    let text = files::read(&path)?;
    let broken = |error: serde_json::Error| {
        DatasetError::damaged(
            &path,
            format!("this is not a manifest ({error}): restore the original"),
        )
    };
    let value: Value = serde_json::from_str(&text).map_err(broken)?;
    let format = formats::of(value.get("schema").and_then(Value::as_u64))
        .map_err(|unknown| DatasetError::damaged(&path, unknown.problem()))?;
    let manifest = format.manifest(value).map_err(broken)?;
    if let Some(number) = (0..manifest.cases.len()).find(|i| manifest.cases[*i].number != *i) {
        let problem = format!("case {number} has the wrong number: restore the original");
        return Err(DatasetError::damaged(&path, problem));
    }
    Ok(manifest)
}
