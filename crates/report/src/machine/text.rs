//! Described machines: which there are, and what a file says of one.

use ringfence_simulator::{Description, Value};

use crate::style::{Paint, Style};
use crate::survey::text::describe;
use crate::table::{Cell, Column, Table};
use crate::text::{faint, hanging, heading, paragraph};

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

/// What a machine file says, value by value; with [`Style::details`], with the sources.
pub fn machine(description: &Description, style: &Style) -> String {
    let mut out = String::new();
    heading(&mut out, &description.title, style);
    paragraph(&mut out, 0, &describe(&description.machine()), style);
    out.push('\n');
    let values = description.values();
    if !style.details {
        by_part(&mut out, &values, style);
        let more = format!("Where each comes from: ringfence machine {} --why", description.name);
        faint(&mut out, &more, style);
        return out;
    }
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

// A line for each part of the machine, such as `core` or `caches[0]`.
fn by_part(out: &mut String, values: &[Value], style: &Style) {
    let split = |value: &Value| match value.path.split_once('.') {
        Some((part, name)) => (part.to_owned(), name.to_owned()),
        None => (String::new(), value.path.clone()),
    };
    for of in values.chunk_by(|one, other| split(one).0 == split(other).0) {
        let text: Vec<String> =
            of.iter().map(|value| format!("{} {}", split(value).1, value.value)).collect();
        let part = split(&of[0]).0;
        let head = if part.is_empty() { String::new() } else { format!("{part}  ") };
        hanging(out, &head, Some(Paint::Strong), &text.join(", "), style);
    }
}
