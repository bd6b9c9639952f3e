//! What differs between two builds.

use std::collections::BTreeMap;

use serde::Serialize;

use super::Census;
use crate::code::Counts;

/// A function that has other instructions than before.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "FunctionChange"))]
pub struct Change {
    /// Its name.
    pub function: String,
    /// The old number of each; all 0 if there was no such function.
    pub before: Counts,
    /// How many there are.
    pub after: Counts,
}

/// The functions whose counts differ, by name. Functions of one name, such as those that several
/// files have of their own, are added up.
pub fn diff(before: &Census, after: &Census) -> Vec<Change> {
    let mut all: BTreeMap<&str, [Counts; 2]> = BTreeMap::new();
    for (side, census) in [before, after].into_iter().enumerate() {
        for function in census.files.iter().flat_map(|file| &file.functions) {
            all.entry(&function.name).or_default()[side] += function.counts;
        }
    }
    let changed = all.into_iter().filter(|(_, [before, after])| before != after);
    changed
        .map(|(function, [before, after])| Change { function: function.into(), before, after })
        .collect()
}
