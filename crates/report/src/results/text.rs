//! The table of stored results.

use std::path::Path;

use ringfence_experiment::shell;
use ringfence_machine::units::Bytes;

use crate::style::Style;
use crate::table::{Cell, Column, Table};
use crate::text::{paragraph, plural};

/// A stored result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// The verb, or the experiment's name.
    pub verb: String,
    /// When it was begun, in UTC: `2026-05-09 07:29`.
    pub date: String,
    /// What its files take.
    pub size: Bytes,
    /// The name of its folder.
    pub folder: String,
}

/// The results in a folder, in the order given.
pub fn results(root: &Path, all: &[Stored], style: &Style) -> String {
    let mut out = String::new();
    let place = shell::quote(&root.to_string_lossy());
    if all.is_empty() {
        paragraph(&mut out, 0, &format!("There are no results in {place} yet."), style);
        return out;
    }
    let columns = ["verb", "date (UTC)"].map(Column::left).into_iter();
    let columns = columns.chain([Column::right("size"), Column::left("result")]);
    let mut table = Table::new(columns.collect());
    for Stored { verb, date, size, folder } in all {
        table.row([verb, date, &size_in_brief(*size), folder].map(Cell::new).into());
    }
    out += &table.render(style);
    out.push('\n');
    let total = Bytes(all.iter().map(|stored| stored.size.0).sum());
    let summary = format!(
        "{} in {place}, {} in all. 'ringfence show RESULT' prints one. Nothing is deleted \
         automatically; remove what you do not need.",
        plural(all.len(), "result"),
        size_in_brief(total)
    );
    paragraph(&mut out, 0, &summary, style);
    out
}

// One digit after the point is enough.
fn size_in_brief(size: Bytes) -> String {
    match size.0 {
        bytes if bytes < 1 << 10 => format!("{bytes}B"),
        bytes => {
            let shift = [30, 20, 10].into_iter().find(|shift| bytes >> shift > 0).unwrap_or(10);
            let value = bytes as f64 / (1u64 << shift) as f64;
            let unit = ["KiB", "MiB", "GiB"][shift / 10 - 1];
            if value < 10.0 { format!("{value:.1}{unit}") } else { format!("{value:.0}{unit}") }
        }
    }
}
