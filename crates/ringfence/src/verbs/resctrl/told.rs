//! What is said on the way, and the step that all limits begin with.

use std::fmt::Write as _;
use std::io::Write as _;

use ringfence_resctrl::{GroupId, Schemata, Step, Transaction};

use crate::failure::Failure;

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

/// Makes a group: a new one has what the kernel finds free: it is to have this.
pub fn make(change: &mut Transaction, group: &GroupId, wanted: &Schemata) -> Result<(), Failure> {
    change.apply(Step::Create { group: group.clone() })?;
    let schemata = wanted.differing_from(&change.resctrl().group(group).schemata()?);
    if !schemata.is_empty() {
        change.apply(Step::Schemata { group: group.clone(), schemata })?;
    }
    Ok(())
}
