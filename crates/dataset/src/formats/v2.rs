//! Version 2 and those that only add columns to it: a journal says which columns it has, and their
//! types.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::format::Format;
use crate::columns::{self, COLUMNS, Column};
use crate::version::{DISK, SCHEMA};

pub const FIRST: u32 = 2;

/// The first line of a journal.
#[derive(Serialize, Deserialize)]
struct Header<'a> {
    schema: u32,
    #[serde(borrow)]
    columns: Vec<Entry<'a>>,
}

#[derive(PartialEq, Serialize, Deserialize)]
struct Entry<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
}

// Those that a row may leave out; each has a file of its own beside the table.
const LATENCIES: Entry<'static> =
    Entry { name: Cow::Borrowed("latencies"), kind: Cow::Borrowed("histogram?") };
const STRETCHES: Entry<'static> =
    Entry { name: Cow::Borrowed("disk"), kind: Cow::Borrowed("stretches?") };

/// The first line of a journal that is written today, without its end.
pub fn header() -> Vec<u8> {
    let entry =
        |column: &Column| Entry { name: column.name.into(), kind: column.kind.name().into() };
    let columns = COLUMNS.iter().map(entry).chain([LATENCIES, STRETCHES]).collect();
    serde_json::to_vec(&Header { schema: SCHEMA, columns }).expect("names and a number")
}

pub struct V2 {
    pub version: u32,
}

impl Format for V2 {
    fn version(&self) -> u32 {
        self.version
    }

    fn columns(&self) -> Vec<&'static Column> {
        columns::of_version(self.version)
    }

    fn journal(&self, header: &[u8]) -> Result<Vec<&'static Column>, String> {
        let Header { columns: entries, .. } =
            serde_json::from_slice(header).map_err(|error| error.to_string())?;
        let entries = match entries.split_last() {
            Some((last, entries)) if self.version >= DISK && *last == STRETCHES => entries,
            _ if self.version >= DISK => {
                return Err("its last column is not what the disk did".into());
            }
            _ => &entries,
        };
        let entries = match entries.split_last() {
            Some((last, entries)) if *last == LATENCIES => entries,
            _ => return Err("the last column of samples is not their latencies".into()),
        };
        let mut columns: Vec<&'static Column> = Vec::with_capacity(entries.len());
        for Entry { name, kind } in entries {
            let is = |column: &&Column| {
                column.name_in(self.version) == name && column.kind.name() == *kind
            };
            let column = COLUMNS.iter().find(is);
            let column =
                column.ok_or_else(|| format!("no column {name} of type {kind} is known"))?;
            if columns.iter().any(|earlier| earlier.name == column.name) {
                return Err(format!("column {name} comes twice"));
            }
            columns.push(column);
        }
        let has = |column: &Column| columns.iter().any(|other| other.name == column.name);
        match COLUMNS.iter().find(|column| !column.kind.nullable() && !has(column)) {
            Some(column) => Err(format!("column {} is missing", column.name_in(self.version))),
            None => Ok(columns),
        }
    }
}
