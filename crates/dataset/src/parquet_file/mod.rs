//! `samples.parquet`: the samples as one table.
//!
//! The natural types: u32 and u64 are annotated as unsigned, role and class are text with a
//! dictionary, what may be missing is optional. Before it is parsed the file is compared with its
//! checksum in the manifest, so that a damaged one is called that whatever the parser would make of
//! it.

pub mod latencies;
mod read;
pub mod stretches;
mod write;

pub use read::read;
pub use write::{plain, write};

use parquet::basic::Encoding;

use super::columns::{COLUMNS, Column, Kind};

const SCHEMA_KEY: &str = "ringfence.schema";

// The schema in the format's own notation.
fn message() -> String {
    let field = |Column { name, kind, .. }: &Column| match kind {
        Kind::U32(..) => format!("REQUIRED INT32 {name} (INTEGER(32,false));"),
        Kind::U64(..) => format!("REQUIRED INT64 {name} (INTEGER(64,false));"),
        Kind::OptU64(..) => format!("OPTIONAL INT64 {name} (INTEGER(64,false));"),
        Kind::OptF64(..) => format!("OPTIONAL DOUBLE {name};"),
        Kind::OptBool(..) => format!("OPTIONAL BOOLEAN {name};"),
        Kind::Role | Kind::Class => format!("REQUIRED BYTE_ARRAY {name} (UTF8);"),
    };
    format!("message samples {{ {} }}", COLUMNS.iter().map(field).collect::<Vec<_>>().join(" "))
}

// Counts and times differ in every sample: differences are shorter than a dictionary of them all.
fn encoding(kind: &Kind) -> Option<Encoding> {
    matches!(kind, Kind::U64(..) | Kind::OptU64(..)).then_some(Encoding::DELTA_BINARY_PACKED)
}
