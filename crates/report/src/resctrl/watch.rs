//! What groups use, as it is watched.

use ringfence_machine::units::Bytes;
use ringfence_resctrl::monitor::Used;

use crate::style::{Paint, Style};
use crate::table::{Cell, Column, Table};
use crate::text::{faint, paragraph};

// Of this time: what is never counted here is said below the table.
const NO_FIGURE: &str = "?";

fn bandwidth(bytes: Option<u64>) -> String {
    bytes.map_or(NO_FIGURE.into(), |bytes| format!("{:.1} MB/s", bytes as f64 / 1e6))
}

/// A table of the last readings, `seconds` after watching began; `missing` are sentences on what is
/// not counted here.
pub fn watched(seconds: f64, used: &[Used], missing: &[String], style: &Style) -> String {
    let mut columns = vec![Column::text("group", 14), Column::left("cache")];
    columns.extend(["holds", "traffic", "local", "remote"].map(Column::right));
    let mut table = Table::new(columns);
    for one in used {
        let remote = one.total.zip(one.local).map(|(total, local)| total.saturating_sub(local));
        let holds = one.occupancy.map_or(NO_FIGURE.into(), |bytes| Bytes(bytes).to_string());
        let mut row = vec![Cell::painted(one.group.to_string(), Paint::Strong)];
        let figures = [bandwidth(one.total), bandwidth(one.local), bandwidth(remote)];
        row.push(Cell::new(format!("{}:{}", one.resource, one.domain)));
        row.push(Cell::new(holds));
        row.extend(figures.iter().map(Cell::new));
        table.row(row);
    }
    let mut out = table.render(style);
    for sentence in missing {
        paragraph(&mut out, 0, sentence, style);
    }
    faint(
        &mut out,
        &format!("{seconds:.1} s; MB/s are 1000000 bytes a second; ? is no figure this time"),
        style,
    );
    out
}

/// The heads of the lines of [`watched_lines`].
pub const WATCHED_HEADS: &str =
    "seconds\tgroup\tcache\toccupancy_bytes\ttotal_bytes_per_second\tlocal_bytes_per_second\n";

/// The same as a line for each group and cache, with tabs in between; what there is no figure for
/// is `-`.
pub fn watched_lines(seconds: f64, used: &[Used]) -> String {
    let figure = |figure: Option<u64>| figure.map_or("-".to_owned(), |figure| figure.to_string());
    let line = |one: &Used| {
        format!(
            "{seconds:.3}\t{}\t{}:{}\t{}\t{}\t{}\n",
            one.group,
            one.resource,
            one.domain,
            figure(one.occupancy),
            figure(one.total),
            figure(one.local)
        )
    };
    used.iter().map(line).collect()
}
