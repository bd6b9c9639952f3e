//! Tables on disk: Parquet files of a few kinds of columns, each with a checksum of the whole file.

mod read;
mod rows;
mod write;

use serde::{Deserialize, Serialize};

pub use read::{Batch, Reader, Refusal};
pub use rows::Rows;
pub use write::Writer;

/// A column.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    pub name: &'static str,
    pub kind: Kind,
    pub optional: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    U32,
    U64,
    // Increases from row to row, or nearly.
    Rising,
    Text,
    Bytes,
}

/// A table: its name, that its files begin with, and its columns.
#[derive(Debug)]
pub struct Table {
    pub name: &'static str,
    pub columns: &'static [Column],
}

/// A file of a table, as the manifest has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Its name in the folder.
    pub name: String,
    /// Its rows.
    pub rows: u64,
    /// Its size, bytes.
    pub bytes: u64,
    /// XXH64 of it with seed 0, in hexadecimal digits.
    pub xxh64: String,
}

pub const fn required(name: &'static str, kind: Kind) -> Column {
    Column { name, kind, optional: false }
}

pub const fn optional(name: &'static str, kind: Kind) -> Column {
    Column { name, kind, optional: true }
}
