//! What a version of the format is.

use serde_json::Value;

use crate::columns::Column;
use crate::manifest::Manifest;

/// A version of the format, as far as reading its files needs it.
pub trait Format {
    /// Its number.
    fn version(&self) -> u32;

    /// The columns of its `samples.parquet`.
    fn columns(&self) -> Vec<&'static Column>;

    /// The columns of a journal's rows, from the journal's first line.
    fn journal(&self, header: &[u8]) -> Result<Vec<&'static Column>, String>;

    /// Its manifest. What later versions add to one is optional.
    fn manifest(&self, value: Value) -> serde_json::Result<Manifest> {
        serde_json::from_value(value)
    }
}
