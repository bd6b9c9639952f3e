//! How durable a path is: the verdict, then why, then what would be more.

use crate::style::{Paint, Style};
use crate::text::{hanging, heading};

/// A verdict on how durable stores are, with its reasons, the one that decides first, and with what to do
/// to get something more durable.
pub fn explain(verdict: &str, reasons: &[String], remedies: &[String], style: &Style) -> String {
    let mut out = String::new();
    heading(&mut out, verdict, style);
    for (lead, texts) in [("because", reasons), ("for more", remedies)] {
        for (n, text) in texts.iter().enumerate() {
            let lead = if n == 0 { lead } else { "" };
            hanging(&mut out, &format!("  {lead:<10}"), Some(Paint::Faint), text, style);
        }
    }
    out
}

#[cfg(test)]
#[path = "../tests/inside/explain.rs"]
mod tests;
