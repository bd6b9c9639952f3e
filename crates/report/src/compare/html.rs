//! A comparison as the inside of a section of a page.

use ringfence_lab::compare::Comparison;

use super::words::{change, figure, figure_name, name, verdict};
use super::{compare_answer, remarks};
use crate::numbers::{Figure, NO_FIGURE};
use crate::style::Paint;

/// Two tables, what differs and the cells, between paragraphs; no heading, style or script. Everything
/// that comes from files is escaped. Cells of the verdict have the class `bad`, `good` or `open`.
pub fn compare_html(comparison: &Comparison) -> String {
    let mut out = format!("<p class=\"answer\">{}</p>\n", escape(&compare_answer(comparison)));
    if !comparison.differences.is_empty() {
        out += "<table class=\"differences\">\n<caption>What differs besides the figures</caption>\n";
        out += &head(&["what", "before", "after"]);
        for difference in &comparison.differences {
            let cells =
                [&difference.before, &difference.after].map(|text| format!("<td>{}</td>", escape(text)));
            out +=
                &format!("<tr><th scope=\"row\">{}</th>{}</tr>\n", escape(&difference.what), cells.concat());
        }
        out += "</tbody>\n</table>\n";
    }
    out += "<table class=\"cells\">\n<caption>Cell by cell</caption>\n";
    out += &head(&["case", "figure", "before", "after", "change", "verdict"]);
    for cell in &comparison.cells {
        let figures = [figure(cell, &cell.before), figure(cell, &cell.after), change(cell)].map(number);
        let (words, paint) = verdict(cell);
        let class = match paint {
            Paint::Bad => "bad",
            Paint::Good => "good",
            _ => "open",
        };
        out += &format!(
            "<tr><th scope=\"row\">{}</th><td>{}</td>{}<td class=\"{class}\">{}</td></tr>\n",
            escape(&name(&cell.arm, &cell.label)),
            escape(&figure_name(cell)),
            figures.concat(),
            escape(&words)
        );
    }
    out += "</tbody>\n</table>\n";
    for line in remarks(comparison) {
        out += &format!("<p>{}</p>\n", escape(&line));
    }
    out
}

/// Texts as paragraphs.
pub fn paragraphs_html(lines: &[String]) -> String {
    lines.iter().map(|line| format!("<p>{}</p>\n", escape(line))).collect()
}

/// A page of sections, each a title and its HTML; it opens offline and asks for nothing.
pub fn compare_page(title: &str, sections: &[(String, String)]) -> String {
    let title = escape(title);
    let sections: String = sections
        .iter()
        .map(|(title, html)| format!("<section>\n<h2>{}</h2>\n{html}</section>\n", escape(title)))
        .collect();
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n{sections}</body>\n</html>\n"
    )
}

const STYLE: &str = "\
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
section { overflow-x: auto; }
table { border-collapse: collapse; margin: 1rem 0; }
caption { text-align: left; font-weight: 600; padding: 0.3rem 0; }
th, td { text-align: left; padding: 0.25rem 0.8rem 0.25rem 0; border-bottom: 1px solid #8885; vertical-align: top; }
th[scope=row] { font-weight: 400; }
.number { font-variant-numeric: tabular-nums; white-space: nowrap; }
.interval { opacity: 0.7; }
.answer { font-size: 1.1em; }
.bad { color: light-dark(#a30000, #ff9c9c); }
.good { color: light-dark(#1a6b1a, #8fdc8f); }
.open { color: light-dark(#7a5200, #e7c06d); }
";

fn head(columns: &[&str]) -> String {
    let cells: String = columns.iter().map(|column| format!("<th scope=\"col\">{column}</th>")).collect();
    format!("<thead><tr>{cells}</tr></thead>\n<tbody>\n")
}

fn number(figure: Option<Figure>) -> String {
    match figure {
        Some(Figure { value, interval }) => {
            format!(
                "<td class=\"number\">{} <span class=\"interval\">{}</span></td>",
                escape(&value),
                escape(&interval)
            )
        }
        None => format!("<td class=\"number\">{NO_FIGURE}</td>"),
    }
}

/// A text from outside as text of a page.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c if c.is_control() && c != '\n' => out.push('?'),
            c => out.push(c),
        }
    }
    out
}
