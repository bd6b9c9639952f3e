//! A report of paragraphs and tables, as plain text and as Markdown.

use std::fmt::Write;

/// What is printed.
#[derive(Debug, Default)]
pub struct Report(Vec<Part>);

#[derive(Debug)]
enum Part {
    Heading(String),
    Line(String),
    Table(Vec<Vec<String>>),
}

impl Report {
    /// Begins a section.
    pub fn heading(&mut self, text: impl Into<String>) {
        self.0.push(Part::Heading(text.into()));
    }

    /// One paragraph.
    pub fn line(&mut self, text: impl Into<String>) {
        self.0.push(Part::Line(text.into()));
    }

    /// A table; the first row is its head.
    pub fn table(&mut self, rows: Vec<Vec<String>>) {
        self.0.push(Part::Table(rows));
    }

    /// As plain text.
    pub fn text(&self) -> String {
        self.render(false)
    }

    /// As Markdown.
    pub fn markdown(&self) -> String {
        self.render(true)
    }

    fn render(&self, markdown: bool) -> String {
        let mut out = String::new();
        for part in &self.0 {
            match part {
                Part::Heading(text) if markdown => _ = writeln!(out, "\n### {text}\n"),
                Part::Heading(text) => {
                    _ = writeln!(out, "\n{text}\n{}", "-".repeat(text.chars().count()))
                }
                Part::Line(text) if markdown => _ = writeln!(out, "{text}\n"),
                Part::Line(text) => _ = writeln!(out, "{text}"),
                Part::Table(rows) => render_table(&mut out, rows, markdown),
            }
        }
        out
    }
}

fn render_table(out: &mut String, rows: &[Vec<String>], markdown: bool) {
    let columns = rows.first().map_or(0, Vec::len);
    let width =
        |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    for (number, row) in rows.iter().enumerate() {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, width))| {
            if column == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        let cells: Vec<String> = cells.collect();
        if markdown {
            _ = writeln!(out, "| {} |", cells.join(" | "));
        } else {
            _ = writeln!(out, "{}", cells.join("  ").trim_end());
        }
        if markdown && number == 0 {
            let rules = widths.iter().enumerate().map(|(column, width)| {
                if column == 0 {
                    "-".repeat(*width)
                } else {
                    format!("{}:", "-".repeat(width.max(&2) - 1))
                }
            });
            _ = writeln!(out, "| {} |", rules.collect::<Vec<_>>().join(" | "));
        }
    }
    out.push('\n');
}
