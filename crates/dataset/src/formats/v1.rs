//! Version 1: a journal names its columns, and says nothing of their types.

use serde::Deserialize;

use super::format::Format;
use crate::columns::{self, Column};

#[derive(Deserialize)]
struct Header {
    columns: Vec<String>,
}

pub struct V1;

impl Format for V1 {
    fn version(&self) -> u32 {
        1
    }

    fn columns(&self) -> Vec<&'static Column> {
        columns::of_version(1)
    }

    fn journal(&self, header: &[u8]) -> Result<Vec<&'static Column>, String> {
        let header: Header = serde_json::from_slice(header).map_err(|error| error.to_string())?;
        let columns = self.columns();
        let told = header.columns.len() == columns.len()
            && header.columns.iter().zip(&columns).all(|(name, column)| name == column.name_in(1));
        match told {
            true => Ok(columns),
            false => Err("it names other columns than version 1 has".into()),
        }
    }
}
