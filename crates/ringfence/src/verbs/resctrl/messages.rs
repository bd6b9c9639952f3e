//! What is said on the way.

use std::fmt::Write as _;
use std::io::Write as _;

use ringfence_resctrl::Step;

/// To standard error: standard output is the command's, or the table's.
pub fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "ringfence: {}", ringfence_machine::text::printable(text));
}

/// What would be done, a line each.
pub fn steps(planned: &[Step], more: &[String], notes: &[String]) -> String {
    let mut text = String::from("Would be done:\n");
    for step in planned.iter().map(ToString::to_string).chain(more.iter().cloned()) {
        let _ = writeln!(text, "  {step}");
    }
    for note in notes {
        let _ = writeln!(text, "Note: {note}.");
    }
    text
}
