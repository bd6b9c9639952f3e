//! Described machines: which there are, and what a file says of one.

use ringfence_simulator::{Description, Value};

use crate::style::Style;
use crate::survey::text::describe;
use crate::table::{Cell, Column, Table};
use crate::text::{faint, heading, paragraph};

/// The machines that come with the program.
pub fn machines(all: &[Description], style: &Style) -> String {
    let mut table = Table::new(vec![Column::left("machine"), Column::text("what it is", 30)]);
    for one in all {
        table.row(vec![Cell::new(&one.name), Cell::new(&one.title)]);
    }
    let mut out = table.render(style);
    out.push('\n');
    let how = "'ringfence machine NAME' shows one, and 'ringfence write --machine NAME' simulates \
               it. With --file, it prints the file, \
               as a beginning of your own.";
    faint(&mut out, how, style);
    out
}

/// What a machine file says, value by value, with the sources.
pub fn machine(description: &Description, style: &Style) -> String {
    let mut out = String::new();
    heading(&mut out, &description.title, style);
    paragraph(&mut out, 0, &describe(&description.machine()), style);
    out.push('\n');
    let values = description.values();
    for alike in values.chunk_by(|one, other| one.source == other.source) {
        for Value { path, value, .. } in alike {
            paragraph(&mut out, 0, &format!("{path} = {value}"), style);
        }
        if let Some(Value { source, .. }) = alike.first() {
            paragraph(&mut out, 4, source, style);
        }
    }
    out
}
