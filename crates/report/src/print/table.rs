//! Tables without borders: a header, a thin rule, rows.
//!
//! comfy-table decides widths and wraps. Its own colours go through process-wide state, so
//! painted words travel through it between marks: format characters that take no column and that
//! [`clean`] removes from any other text. They become escape sequences at the end.

use comfy_table::{
    CellAlignment, ColumnConstraint, ContentArrangement, LineStyle, Table as Grid, TableStyle,
    Width,
};

use crate::print::style::{Paint, Style};
use crate::print::text::{clean, width};

/// Columns between two columns.
const GAP: usize = 2;

/// Ends a painted word.
const END_MARK: char = '\u{206f}';

/// A column's head and manners.
#[derive(Debug, Clone)]
pub struct Column {
    head: String,
    right: bool,
    /// The narrowest it may be wrapped to; never wrapped without.
    narrowest: Option<usize>,
}

impl Column {
    /// Left-aligned, in one piece.
    pub fn left(head: impl Into<String>) -> Self {
        Self { head: clean(&head.into()), right: false, narrowest: None }
    }

    /// Right-aligned, in one piece.
    pub fn right(head: impl Into<String>) -> Self {
        Self { right: true, ..Self::left(head) }
    }

    /// Left-aligned, wrapped to no less than `narrowest` columns.
    pub fn text(head: impl Into<String>, narrowest: usize) -> Self {
        Self { narrowest: Some(narrowest), ..Self::left(head) }
    }
}

/// A cell's text and how it is painted.
#[derive(Debug, Clone, Default)]
pub struct Cell {
    text: String,
    paint: Option<Paint>,
}

impl Cell {
    /// A text, made harmless.
    pub fn new(text: impl AsRef<str>) -> Self {
        Self { text: clean(text.as_ref()), paint: None }
    }

    /// The same, painted.
    pub fn painted(text: impl AsRef<str>, paint: Paint) -> Self {
        Self { paint: Some(paint), ..Self::new(text) }
    }

    fn content(&self, style: &Style) -> String {
        match self.paint.filter(|_| style.color) {
            // Word by word, so that a wrapped cell paints nothing of its neighbour.
            Some(paint) => {
                let words = self.text.split(' ').map(|word| match word {
                    "" => String::new(),
                    word => format!("{}{word}{END_MARK}", mark(paint)),
                });
                words.collect::<Vec<_>>().join(" ")
            }
            None => self.text.clone(),
        }
    }
}

/// A table in the making.
#[derive(Debug, Clone)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// A table without rows.
    pub fn new(columns: Vec<Column>) -> Self {
        Self { columns, rows: Vec::new() }
    }

    /// Adds a row; cells that are missing at its end are empty.
    pub fn row(&mut self, cells: Vec<Cell>) {
        debug_assert!(cells.len() <= self.columns.len());
        self.rows.push(cells);
    }

    /// Whether it can be shown in this width without breaking what must stay in one piece.
    pub fn fits(&self, style: &Style) -> bool {
        let least = |index: usize| {
            let natural = self.natural(index);
            self.columns[index].narrowest.map_or(natural, |narrowest| narrowest.min(natural))
        };
        let columns: usize = (0..self.columns.len()).map(least).sum();
        columns + GAP * self.columns.len().saturating_sub(1) <= style.columns()
    }

    /// The table as lines. Where it does not fit, everything may be wrapped between words, and
    /// within words only where these do not fit either.
    pub fn render(&self, style: &Style) -> String {
        let fits = self.fits(style);
        let gaps = GAP * self.columns.len().saturating_sub(1);
        let words: Vec<usize> =
            (0..self.columns.len()).map(|index| self.longest_word(index)).collect();
        let whole_words = words.iter().sum::<usize>() + gaps <= style.columns();
        let rule = style.rule();
        let mut grid = Grid::new();
        grid.load_style(TableStyle::new().header_separator(LineStyle::none().fill(rule)));
        grid.set_content_arrangement(ContentArrangement::Dynamic);
        grid.set_width(u16::try_from(style.columns()).unwrap_or(u16::MAX));
        let head = |column: &Column| Cell::painted(&column.head, Paint::Strong).content(style);
        grid.set_header(self.columns.iter().map(head).collect::<Vec<_>>());
        for row in &self.rows {
            let mut cells: Vec<String> = row.iter().map(|cell| cell.content(style)).collect();
            cells.resize(self.columns.len(), String::new());
            grid.add_row(cells);
        }
        let last = self.columns.len().saturating_sub(1);
        for (index, column) in self.columns.iter().enumerate() {
            let natural = self.natural(index);
            let padding = if index < last { GAP } else { 0 };
            let Some(shown) = grid.column_mut(index) else { continue };
            shown.set_padding((0, padding as u16));
            shown.set_cell_alignment(if column.right {
                CellAlignment::Right
            } else {
                CellAlignment::Left
            });
            if fits {
                let constraint = match column.narrowest {
                    None => ColumnConstraint::ContentWidth,
                    Some(narrowest) => {
                        let least = narrowest.min(natural) + padding;
                        ColumnConstraint::LowerBoundary(Width::Fixed(least as u16))
                    }
                };
                shown.set_constraint(constraint);
            } else if whole_words {
                let least = words[index] + padding;
                shown.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(least as u16)));
            }
        }
        let mut out = String::new();
        for line in grid.trim_fmt().lines() {
            let is_rule = !line.is_empty() && line.chars().all(|c| c == rule);
            out.push_str(&if is_rule { style.paint(Paint::Faint, line) } else { unmark(line) });
            out.push('\n');
        }
        out
    }

    /// The widest line of a column, head included.
    fn natural(&self, index: usize) -> usize {
        self.texts(index).map(width).max().unwrap_or(0)
    }

    /// The widest word of a column, head included.
    fn longest_word(&self, index: usize) -> usize {
        self.texts(index).flat_map(|text| text.split(' ')).map(width).max().unwrap_or(0)
    }

    fn texts(&self, index: usize) -> impl Iterator<Item = &str> {
        let cells = self.rows.iter().filter_map(move |row| row.get(index));
        cells.map(|cell| &*cell.text).chain([&*self.columns[index].head])
    }
}

fn mark(paint: Paint) -> char {
    match paint {
        Paint::Strong => '\u{206a}',
        Paint::Faint => '\u{206b}',
        Paint::Bad => '\u{206c}',
        Paint::Caution => '\u{206d}',
        Paint::Good => '\u{206e}',
    }
}

fn unmark(line: &str) -> String {
    let mut text = line.to_string();
    for paint in Paint::ALL {
        text = text.replace(mark(paint), paint.begin());
    }
    text.replace(END_MARK, Paint::END)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table =
            Table::new(vec![Column::left("name"), Column::right("size"), Column::text("why", 10)]);
        table.row(vec![
            Cell::new("dram"),
            Cell::new("8GiB"),
            Cell::new("ordinary memory, not durable"),
        ]);
        table.row(vec![Cell::painted("  x", Paint::Faint), Cell::new("64B")]);
        table
    }

    #[test]
    fn columns_align_and_text_wraps() {
        let text = table().render(&Style::plain(40));
        let expected = "\
name  size  why
----------------------------------------
dram  8GiB  ordinary memory, not durable
  x    64B
";
        assert_eq!(text, expected);
    }

    #[test]
    fn what_does_not_fit_is_broken_between_words() {
        let mut table =
            Table::new(vec![Column::left("instruction"), Column::right("fence a line")]);
        table.row(vec![Cell::new("clflushopt"), Cell::new("182.0 [181.9, 182.2] of a cold line")]);
        let text = table.render(&Style::plain(40));
        assert!(["clflushopt", "instruction", "[181.9,"].iter().all(|word| text.contains(word)));
    }

    #[test]
    fn paint_takes_no_room() {
        let colored = table().render(&Style { color: true, ..Style::plain(40) });
        assert!(colored.contains("\x1b[2mx\x1b[0m    64B"), "{colored:?}");
        let mut plain = colored.replace(Paint::END, "");
        for paint in Paint::ALL {
            plain = plain.replace(paint.begin(), "");
        }
        assert_eq!(plain, table().render(&Style::plain(40)));
    }

    #[test]
    fn marks_from_outside_are_no_marks() {
        assert_eq!(Cell::new("\u{206a}\u{206f}\x1b[1m").content(&Style::plain(80)), "???[1m");
    }

    #[test]
    fn what_cannot_fit_is_known_and_still_kept_within_the_width() {
        let mut table = table();
        table.row(vec![Cell::new("n".repeat(50))]);
        assert!(!table.fits(&Style::plain(40)));
        assert!(table.fits(&Style::plain(80)));
        assert!(table.render(&Style::plain(40)).lines().all(|line| width(line) <= 40));
    }
}
