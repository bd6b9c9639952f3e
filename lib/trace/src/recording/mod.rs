//! Recordings of programs on disk.
//!
//! A folder: `trace.json` says what was recorded, and Parquet files hold the events, what files
//! held before, the instructions and their callers. `docs/reference/trace-format.md`
//! describes it all.

mod error;
mod manifest;
pub mod pmemcheck;
mod reader;
mod rows;
mod table;
mod tables;
mod writer;

pub use error::RecordingError;
pub use manifest::{About, Asked, Manifest};
pub use reader::Reader;
pub use table::Part;
pub use writer::Writer;

/// The version of the format that is written; earlier ones are read.
pub const SCHEMA: u32 = 3;

/// The file that makes a folder a recording.
pub const MANIFEST: &str = "trace.json";

/// Bytes that one event stores at most.
pub const LARGEST: usize = 16 << 20;

/// Bytes of a page of an image.
pub const PAGE: usize = 4096;
