//! The versions of the format, and a reader for each that was ever written.
//!
//! Every file says which version it is of, and its reader is chosen by that. The manifest's is the
//! newest in its folder: a journal that a later program continues keeps its version.
//!
//! A version that only adds columns needs no reader of its own: [`v2`] has them as
//! [`COLUMNS`](super::columns::COLUMNS) says. One whose files are laid out in another way does: a
//! module beside these, and datasets that stay under `tests/data`.

mod format;
pub mod v1;
pub mod v2;

pub use format::Format;

use super::version::SCHEMA;

/// Why a version cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unknown {
    /// It is of a later program.
    Newer(u64),
    /// No program ever wrote it.
    Never,
}

/// The reader of a version.
pub fn of(version: Option<u64>) -> Result<Box<dyn Format>, Unknown> {
    match version {
        Some(1) => Ok(Box::new(v1::V1)),
        Some(version) if (u64::from(v2::FIRST)..=u64::from(SCHEMA)).contains(&version) => {
            Ok(Box::new(v2::V2 { version: version as u32 }))
        }
        Some(version) if version > u64::from(SCHEMA) => Err(Unknown::Newer(version)),
        _ => Err(Unknown::Never),
    }
}

impl Unknown {
    /// What is wrong with a file that states it, and the remedy.
    pub fn problem(self) -> String {
        match self {
            Self::Newer(version) => {
                format!(
                    "schema {version} is newer than this program reads ({SCHEMA}): use a newer \
                     Ringfence"
                )
            }
            Self::Never => "its schema version is missing or unknown: restore the original".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::columns::{COLUMNS, Column};
    use crate::version::{DISK, LAYOUT};

    // The first line of a journal whose columns are called as a version calls them.
    fn header(version: u32, called: u32) -> Value {
        let columns = of(Some(version.into())).unwrap().columns();
        let entry = |column: &&Column| match version {
            1 => json!(column.name_in(called)),
            _ => json!({ "name": column.name_in(called), "type": column.kind.name() }),
        };
        let mut entries: Vec<Value> = columns.iter().map(entry).collect();
        if version > 1 {
            entries.push(json!({ "name": "latencies", "type": "histogram?" }));
        }
        if version >= DISK {
            entries.push(json!({ "name": "disk", "type": "stretches?" }));
        }
        json!({ "schema": version, "columns": entries })
    }

    #[test]
    fn a_journal_has_the_names_of_its_version_and_each_once() {
        for version in 1..=SCHEMA {
            let read = |header: &Value| {
                let columns =
                    of(Some(version.into())).unwrap().journal(header.to_string().as_bytes());
                columns.map(|columns| columns.len())
            };
            let columns = COLUMNS.iter().filter(|column| column.since <= version).count();
            assert_eq!(read(&header(version, version)), Ok(columns));
            let other = if version < LAYOUT { SCHEMA } else { 2 };
            let error = read(&header(version, other)).unwrap_err();
            assert!(error.contains("column"), "{error}");
            let mut twice = header(version, version);
            twice["columns"][1] = twice["columns"][0].clone();
            let error = read(&twice).unwrap_err();
            assert!(
                error.contains(if version == 1 { "other columns" } else { "comes twice" }),
                "{error}"
            );
        }
    }

    #[test]
    fn every_version_up_to_ours_has_a_reader() {
        for version in 1..=u64::from(SCHEMA) {
            let count = of(Some(version)).unwrap().columns().len();
            // Version 4 added one, 5 another, and 6 two; 7 a file, and 8 finer buckets.
            let added = [0, 0, 0, 1, 2, 4, 4, 4][version as usize - 1];
            assert_eq!(count, 19 + added, "columns in version {version}");
        }
        for (stated, expected) in [
            (None, Unknown::Never),
            (Some(0), Unknown::Never),
            (Some(u64::from(SCHEMA) + 1), Unknown::Newer(u64::from(SCHEMA) + 1)),
            (Some(u64::MAX), Unknown::Newer(u64::MAX)),
            (Some((1 << 32) + 1), Unknown::Newer((1 << 32) + 1)),
        ] {
            assert_eq!(of(stated).err(), Some(expected));
        }
    }
}
