//! What a path is: headings, and lines below them that say why.

use crate::style::{Paint, Style};
use crate::text::{clean, hanging, heading, width};

/// Headings, and below each its lines: a lead, such as `because`, and a text. An empty lead goes on with the line before.
pub fn explain(parts: &[(&str, Vec<(String, String)>)], style: &Style) -> String {
    let mut out = String::new();
    for (title, lines) in parts {
        out.extend((!out.is_empty()).then_some('\n'));
        heading(&mut out, title, style);
        let room = lines.iter().map(|(lead, _)| width(lead)).max().unwrap_or(0).max(8);
        for (lead, text) in lines {
            hanging(&mut out, &format!("  {:<room$}  ", clean(lead)), Some(Paint::Faint), text, style);
        }
    }
    out
}

#[cfg(test)]
#[path = "../tests/inside/explain.rs"]
mod tests;
