//! `whatif`: one plan on a described machine, and on the same machine with some of its values
//! changed.
//!
//! Nothing is measured. Both datasets are simulated with one seed, so that trials of equal numbers
//! begin alike and are compared with each other: what does not depend on the change comes out the
//! same to the last digit.

mod eadr;

use std::path::{Path, PathBuf};

use ringfence_dataset::{Dataset, text_file};
use ringfence_experiment::Error;
use ringfence_simulator::Change;
use serde::{Deserialize, Serialize};

use crate::Kept;
use crate::compare::{CompareError, Comparison, Difference, Trials, compare_as};

pub use eadr::Elided;

/// The version of the record's format.
pub const SCHEMA: u32 = 1;

/// The question, stored next to both datasets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// The version of the format.
    pub schema: u32,
    /// Always `whatif`.
    pub kind: String,
    /// The machine's title.
    pub machine: String,
    /// What was changed.
    pub changes: Vec<Change>,
}

/// The answer.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WhatIf {
    /// The machine's title.
    pub machine: String,
    /// What was changed.
    pub changes: Vec<Change>,
    /// Case by case: `before` is the machine as described, `after` the changed one. Trials of equal
    /// numbers are compared.
    pub comparison: Comparison,
    /// Writes without flushes that the change makes durable (eADR), each against the cheapest that
    /// is durable on the machine as described.
    pub elided: Vec<Elided>,
}

/// Where everything lies in the folder.
pub struct Files(PathBuf);

impl Files {
    /// The record's name.
    pub const RECORD: &str = "question.json";

    /// Those of a folder.
    pub fn of(dir: &Path) -> Self {
        Self(dir.into())
    }

    /// The dataset of the machine as it is described.
    pub fn unchanged(&self) -> PathBuf {
        self.0.join("unchanged")
    }

    /// That of the changed one.
    pub fn changed(&self) -> PathBuf {
        self.0.join("changed")
    }

    /// Stores the question.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn keep(&self, machine: &str, changes: &[Change]) -> Result<(), Error> {
        let changes = changes.to_vec();
        let record =
            Record { schema: SCHEMA, kind: "whatif".into(), machine: machine.into(), changes };
        Kept::new(Self::RECORD, &record).write(&self.0)
    }

    /// The answer of a folder.
    ///
    /// # Errors
    /// One sentence where something of it is missing or damaged.
    pub fn read(&self) -> Result<WhatIf, Error> {
        let path = self.0.join(Self::RECORD);
        let text = text_file::read(&path, text_file::LONGEST).map_err(|error| {
            let hint = "name a folder that 'ringfence whatif' wrote";
            Error::usage(format!("{}: {error}; {hint}", path.display())).because(error)
        })?;
        let record: Record = serde_json::from_str(&text).map_err(|error| {
            Error::usage(format!("{}: {error}; restore the original", path.display()))
                .because(error)
        })?;
        let before = Dataset::open(&self.unchanged())?;
        let after = Dataset::open(&self.changed())?;
        conclude(&record, &before, &after).map_err(Error::usage_by)
    }
}

/// What follows from both datasets.
///
/// # Errors
/// Where no case was simulated on both machines.
pub fn conclude(
    record: &Record,
    before: &Dataset,
    after: &Dataset,
) -> Result<WhatIf, CompareError> {
    let mut comparison = compare_as(before, after, Trials::Paired)?;
    // When a simulation ran says nothing.
    comparison.differences.retain(|difference| difference.what != "date");
    let changed = |change: &Change| Difference {
        what: change.key.clone(),
        before: change.was.clone().unwrap_or_else(|| "not there".into()),
        after: change.value.clone(),
    };
    comparison.differences.splice(0..0, record.changes.iter().map(changed));
    Ok(WhatIf {
        machine: record.machine.clone(),
        changes: record.changes.clone(),
        elided: eadr::elided(before, after, comparison.level, comparison.margin),
        comparison,
    })
}
