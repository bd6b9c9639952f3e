//! What a path is: headings, and lines below them that say why.

use crate::style::{Paint, Style};
use crate::text::{clean, hanging, heading, width};

/// Headings, and below each its lines: a lead, such as `because`, and a text. An empty lead
/// continues the line before.
pub fn explain(parts: &[(&str, Vec<(String, String)>)], style: &Style) -> String {
    let mut out = String::new();
    for (title, lines) in parts {
        out.extend((!out.is_empty()).then_some('\n'));
        heading(&mut out, title, style);
        let room = lines.iter().map(|(lead, _)| width(lead)).max().unwrap_or(0).max(8);
        for (lead, text) in lines {
            hanging(
                &mut out,
                &format!("  {:<room$}  ", clean(lead)),
                Some(Paint::Faint),
                text,
                style,
            );
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_hang_below_the_verdict() {
        let line = |lead: &str, text: &str| (lead.to_string(), text.to_string());
        let verdict = vec![
            line("because", "it is so, and takes more words than fit into a line of forty columns"),
            line("", "it\x1b[31m is"),
            line("for more", "buy something"),
        ];
        let below = vec![line("sync_file_range", "no"), line(" a\x1b[m", "it is")];
        let out = explain(&[("/x: volatile", verdict), ("Below", below)], &Style::plain(48));
        let expected = "\
/x: volatile
  because   it is so, and takes more words than
            fit into a line of forty columns
            it?[31m is
  for more  buy something

Below
  sync_file_range  no
   a?[m            it is
";
        assert_eq!(out, expected);
    }
}
