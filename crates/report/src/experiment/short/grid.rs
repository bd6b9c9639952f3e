//! Tables of figures: rows and columns by name where there is room, else a line for each case.

use crate::experiment::short::names::Name;
use crate::style::{Paint, Style};
use crate::table::{Cell, Column, Table};
use crate::text::{distinct, paragraph, width};

/// Rows, at most.
pub(crate) const MOST_ROWS: usize = 16;

/// A figure of a case, with its interval.
pub(crate) struct Entry {
    /// The case.
    pub(crate) name: Name,
    /// The figure.
    pub(crate) text: String,
    /// How it is painted.
    pub(crate) paint: Option<Paint>,
}

impl Entry {
    fn cell(&self) -> Cell {
        self.paint.map_or_else(|| Cell::new(&self.text), |paint| Cell::painted(&self.text, paint))
    }
}

/// The table, with at most [`MOST_ROWS`] rows; and how many cases are not in it. `corner` is over
/// the rows of a matrix, `head` over the figures of a list.
pub(crate) fn table(
    entries: &[Entry],
    (corner, head): (&str, &str),
    style: &Style,
) -> (String, usize) {
    let columns = distinct(entries.iter().map(|entry| entry.name.column.as_str()));
    let rows = distinct(entries.iter().map(|entry| entry.name.row.as_str()));
    if columns.len() > 1 && rows.len().max(columns.len()) <= MOST_ROWS {
        let upright = matrix(entries, [&rows, &columns], corner, false);
        let turned = matrix(entries, [&columns, &rows], corner, true);
        let mut tables = upright.into_iter().chain(turned);
        if let Some(table) = tables.find(|table| table.fits(style)) {
            return (table.render(style), 0);
        }
    }
    let shown = &entries[..entries.len().min(MOST_ROWS)];
    let longest = shown.iter().flat_map(|entry| words(&entry.name)).max().unwrap_or(0);
    let mut table = Table::new(vec![Column::text("", longest.max(10)), Column::left(head)]);
    shown.iter().for_each(|entry| table.row(vec![Cell::new(entry.name.whole()), entry.cell()]));
    let text = if table.fits(style) { table.render(style) } else { lines(shown, style) };
    (text, entries.len() - shown.len())
}

// Nothing where a place in it has two figures. Turned, its rows are the entries' columns.
fn matrix(
    entries: &[Entry],
    [rows, columns]: [&[&str]; 2],
    corner: &str,
    turned: bool,
) -> Option<Table> {
    let place = |entry: &'_ Entry| match turned {
        true => [entry.name.column.clone(), entry.name.row.clone()],
        false => [entry.name.row.clone(), entry.name.column.clone()],
    };
    let widest = |column: &str| {
        let own = entries.iter().filter(|entry| place(entry)[1] == column);
        own.map(|entry| width(&entry.text)).chain(column.split(' ').map(width)).max().unwrap_or(0)
    };
    let heads = columns.iter().map(|column| Column::text(*column, widest(column)));
    let mut table = Table::new([Column::left(corner)].into_iter().chain(heads).collect());
    for row in rows {
        let mut cells = vec![Cell::new(row)];
        for column in columns {
            let is_it = |entry: &&Entry| place(entry) == [*row, *column];
            let mut own = entries.iter().filter(is_it);
            cells.push(own.next().map_or_else(|| Cell::new("-"), Entry::cell));
            if own.next().is_some() {
                return None;
            }
        }
        table.row(cells);
    }
    Some(table)
}

fn lines(entries: &[Entry], style: &Style) -> String {
    let mut out = String::new();
    for entry in entries {
        paragraph(&mut out, 0, &format!("{}: {}", entry.name.whole(), entry.text), style);
    }
    out
}

fn words(name: &Name) -> Vec<usize> {
    name.whole().split(' ').map(width).collect()
}
