//! Which flushes, fences, non-temporal stores and locked instructions code has.

use ringfence_machine::units::Bytes;
use ringfence_trace::census::{Census, Change, File};
use ringfence_trace::code::{Counts, Operation};

use crate::numbers::count;
use crate::style::Style;
use crate::table::{Cell, Column, Table};
use crate::text::{faint, hanging, heading, paragraph, plural};

// An empty table would not say that it was looked for.
const NONE: &str = "no flush, no non-temporal store and no sfence or mfence";

/// What was found: in all files, then in each function that has something for durability, or with `all` in each that
/// has anything.
pub fn census(census: &Census, all: bool, style: &Style) -> String {
    let mut out = String::new();
    let total = census.total();
    if census.files.is_empty() {
        paragraph(&mut out, 0, "No file with code for x86 was found.", style);
    }
    if census.files.len() > 1 {
        files(&mut out, census, &total, style);
    }
    let shown = |counts: &Counts| all || counts.are_for_durability();
    for file in census.files.iter().filter(|file| census.files.len() == 1 || shown(&file.counts)) {
        if !out.is_empty() {
            out.push('\n');
        }
        functions(&mut out, file, &shown, style);
    }
    let hidden =
        census.files.iter().flat_map(|file| &file.functions).any(|function| !shown(&function.counts));
    if hidden {
        out.push('\n');
        faint(
            &mut out,
            "Functions with locked instructions or lfence alone are left out: --all shows them.",
            style,
        );
    }
    for unread in &census.unread {
        hanging(&mut out, "not read  ", None, &format!("{}: {}", unread.path.display(), unread.why), style);
    }
    out
}

fn files(out: &mut String, census: &Census, total: &Counts, style: &Style) {
    let bytes: u64 = census.files.iter().map(|file| file.code_bytes).sum();
    heading(out, &format!("{}, {} of code", plural(census.files.len(), "file"), Bytes(bytes)), style);
    if !total.are_for_durability() {
        paragraph(out, 0, &format!("There is {NONE} in any of them."), style);
    }
    let with: Vec<&File> = census.files.iter().filter(|file| file.counts.are_for_durability()).collect();
    let mut rows: Vec<(String, &Counts)> = with.iter().map(|file| (file.name(), &file.counts)).collect();
    rows.push(("all files".into(), total));
    render(out, "file", &rows, style);
}

fn functions(out: &mut String, file: &File, shown: &dyn Fn(&Counts) -> bool, style: &Style) {
    heading(out, &format!("{}: {} of code", file.name(), Bytes(file.code_bytes)), style);
    if !file.counts.are_for_durability() {
        paragraph(out, 0, &format!("It has {NONE}."), style);
    }
    let functions = file.functions.iter().filter(|function| shown(&function.counts));
    let mut rows: Vec<(String, &Counts)> =
        functions.map(|function| (function.name.clone(), &function.counts)).collect();
    rows.push(("whole file".into(), &file.counts));
    render(out, "function", &rows, style);
}

// A column for each instruction that any row has; nothing where none has any.
fn render(out: &mut String, head: &str, rows: &[(String, &Counts)], style: &Style) {
    let there: Vec<Operation> =
        Operation::ALL.into_iter().filter(|one| rows.iter().any(|(_, counts)| counts.of(*one) > 0)).collect();
    if there.is_empty() {
        return;
    }
    let mut columns = vec![Column::text(head, 20)];
    columns.extend(there.iter().map(|operation| Column::right(operation.name())));
    let mut table = Table::new(columns);
    for (name, counts) in rows {
        let figure = |operation: &Operation| match counts.of(*operation) {
            0 => Cell::new("."),
            many => Cell::new(count(many)),
        };
        table.row(std::iter::once(Cell::new(name)).chain(there.iter().map(figure)).collect());
    }
    out.push_str(&table.render(style));
}

/// What differs between two builds: each function with what it had and has.
pub fn census_diff(changes: &[Change], style: &Style) -> String {
    let mut out = String::new();
    if changes.is_empty() {
        paragraph(
            &mut out,
            0,
            "No function differs in its flushes, fences, non-temporal stores or locked instructions.",
            style,
        );
        return out;
    }
    heading(&mut out, &format!("{} that differ, before and after", plural(changes.len(), "function")), style);
    let there: Vec<Operation> = Operation::ALL
        .into_iter()
        .filter(|one| changes.iter().any(|change| change.before.of(*one) != change.after.of(*one)))
        .collect();
    let mut columns = vec![Column::text("function", 20)];
    columns.extend(there.iter().map(|operation| Column::right(operation.name())));
    let mut table = Table::new(columns);
    let arrow = if style.unicode { "→" } else { "->" };
    for change in changes {
        let figure = |operation: &Operation| {
            let (before, after) = (change.before.of(*operation), change.after.of(*operation));
            if before == after {
                Cell::new(".")
            } else {
                Cell::new(format!("{} {arrow} {}", count(before), count(after)))
            }
        };
        table.row(std::iter::once(Cell::new(&change.function)).chain(there.iter().map(figure)).collect());
    }
    out.push_str(&table.render(style));
    out
}
