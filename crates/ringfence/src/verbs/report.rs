//! `report`: a dataset as an HTML page.

use crate::args::Report;
use crate::failure::Failure;
use crate::output;
use crate::shared::page;

pub fn run(args: &Report) -> Result<(), Failure> {
    let path = page::write(&args.dataset, args.out.as_deref())?;
    output::print(&format!("report: {}", path.display()))
}
