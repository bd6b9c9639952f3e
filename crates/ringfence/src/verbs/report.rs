//! `report`: a result as an HTML page.

use std::path::Path;

use crate::args::Report;
use crate::failure::Failure;
use crate::output;
use crate::shared::command::pasteable;
use crate::shared::{page, results};

pub fn run(args: &Report) -> Result<(), Failure> {
    let dir = results::named_or_last(args.dataset.as_deref())?;
    page_of(&dir, args.out.as_deref(), "--out")
}

/// Writes the page of a result, and says where it is.
pub fn page_of(dir: &Path, file: Option<&Path>, flag: &str) -> Result<(), Failure> {
    let path = page::write(dir, file, flag)?;
    output::print(&format!("report: {}", pasteable(&path)))
}
