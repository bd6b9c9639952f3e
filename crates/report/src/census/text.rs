//! Which flushes, fences, non-temporal stores and locked instructions code has.

use std::collections::BTreeSet;

use ringfence_machine::units::Bytes;
use ringfence_trace::census::{Census, Change, File, Function};
use ringfence_trace::code::choices::Choice;
use ringfence_trace::code::{Counts, Operation};

use crate::numbers::count;
use crate::style::Style;
use crate::table::{Cell, Column, Table};
use crate::text::{faint, hanging, heading, listed, paragraph, plural, section};

// An empty table would not say that it was looked for.
const NONE: &str = "no flush, no non-temporal store and no sfence or mfence";

// Functions that are named with stores past the caches and no fence, unless all are asked for.
const MOST_UNFENCED: usize = 10;

// Of one choice, unless all are asked for.
const MOST_VARIANTS: usize = 20;

/// What was found: in all files, then in each function that has something for durability, or with
/// `all` in each that has anything.
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
        unfenced(&mut out, file, if all { usize::MAX } else { MOST_UNFENCED }, style);
        if all || census.files.len() == 1 {
            chosen(&mut out, &file.chosen, if all { usize::MAX } else { MOST_VARIANTS }, style);
        }
    }
    not_detected(&mut out, census, style);
    let hidden = census
        .files
        .iter()
        .flat_map(|file| &file.functions)
        .any(|function| !shown(&function.counts));
    if hidden {
        out.push('\n');
        faint(
            &mut out,
            "Functions with locked instructions or lfence alone are left out: --all shows them.",
            style,
        );
    }
    for unread in &census.unread {
        hanging(
            &mut out,
            "not read  ",
            None,
            &format!("{}: {}", unread.path.display(), unread.why),
            style,
        );
    }
    out
}

fn files(out: &mut String, census: &Census, total: &Counts, style: &Style) {
    let bytes: u64 = census.files.iter().map(|file| file.code_bytes).sum();
    heading(
        out,
        &format!("{}, {} of code", plural(census.files.len(), "file"), Bytes(bytes)),
        style,
    );
    if !total.are_for_durability() {
        paragraph(out, 0, &format!("There is {NONE} in any of them."), style);
    }
    let with: Vec<&File> =
        census.files.iter().filter(|file| file.counts.are_for_durability()).collect();
    let mut rows: Vec<(String, &Counts)> =
        with.iter().map(|file| (file.name(), &file.counts)).collect();
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

// Stores that no fence follows within their function.
fn unfenced(out: &mut String, file: &File, most: usize, style: &Style) {
    let with: Vec<&Function> =
        file.functions.iter().filter(|function| function.unfenced > 0).collect();
    if with.is_empty() {
        return;
    }
    let name = |function: &&Function| format!("{} ({})", function.name, count(function.unfenced));
    let mut names: Vec<String> = with.iter().take(most).map(name).collect();
    if with.len() > most {
        names.push(format!("{} more (--all)", with.len() - most));
    }
    let text = format!(
        "Non-temporal stores with no fence on any path out of their function, so that callers have \
         to fence: {}.",
        listed(&names, "and")
    );
    paragraph(out, 0, &text, style);
}

// That nothing was found means something only where choices can be detected.
fn not_detected(out: &mut String, census: &Census, style: &Style) {
    let kinds: BTreeSet<&str> =
        census.files.iter().filter_map(|file| file.choices_not_detected.as_deref()).collect();
    if !kinds.is_empty() {
        let kinds: Vec<String> = kinds.into_iter().map(Into::into).collect();
        out.push('\n');
        let text = format!("Choices at run time are not detected in {}.", listed(&kinds, "and"));
        faint(out, &text, style);
    }
}

// One table for each thing that is chosen, with what each variant needs.
fn chosen(out: &mut String, choices: &[Choice], most: usize, style: &Style) {
    for choice in choices {
        section(out);
        heading(
            out,
            &format!("Chosen at run time: {choice}, one of {}", choice.variants.len()),
            style,
        );
        let heads = [("function", 20), ("has", 16), ("needs", 12), ("this machine", 12)];
        let mut table =
            Table::new(heads.map(|(head, narrowest)| Column::text(head, narrowest)).into());
        let alone = choice.variants.iter().filter(|variant| variant.can_run()).count() == 1;
        for variant in choice.variants.iter().take(most) {
            let some = variant.counts.iter().filter(|(_, many)| *many > 0);
            let has: Vec<String> =
                some.map(|(operation, many)| format!("{operation} {}", count(many))).collect();
            let here = match &variant.lacks {
                None => "not known".into(),
                Some(lacks) if !lacks.is_empty() => format!("lacks {}", lacks.join(", ")),
                Some(_) if alone => "can run this one alone".into(),
                Some(_) => "can run it".into(),
            };
            let row = [variant.function.clone(), has.join(", "), variant.needs.join(", "), here];
            table.row(
                row.iter()
                    .map(|text| Cell::new(if text.is_empty() { "." } else { text }))
                    .collect(),
            );
        }
        if choice.variants.len() > most {
            table.row(vec![Cell::new(format!("{} more: --all", choice.variants.len() - most))]);
        }
        out.push_str(&table.render(style));
    }
    if choices.iter().any(|choice| choice.variants.iter().filter(|one| one.can_run()).count() > 1) {
        faint(
            out,
            "Where this machine can run several, which one is taken is up to the program, and not \
             told here.",
            style,
        );
    }
}

// A column for each instruction that any row has; nothing where none has any.
fn render(out: &mut String, head: &str, rows: &[(String, &Counts)], style: &Style) {
    let there: Vec<Operation> = Operation::ALL
        .into_iter()
        .filter(|one| rows.iter().any(|(_, counts)| counts.of(*one) > 0))
        .collect();
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
            "No function differs in its flushes, fences, non-temporal stores or locked \
             instructions.",
            style,
        );
        return out;
    }
    heading(
        &mut out,
        &format!("{} that differ, before and after", plural(changes.len(), "function")),
        style,
    );
    let rows: Vec<_> =
        changes.iter().map(|one| (one.function.as_str(), one.before, one.after)).collect();
    let figures = Operation::ALL.map(|one| (one.name(), move |counts: &Counts| counts.of(one)));
    out.push_str(&differences("function", &rows, &figures, style));
    out
}

/// A row for each place with what it had and has; without figures that differ nowhere.
pub fn differences<T>(
    head: &str,
    rows: &[(&str, T, T)],
    figures: &[(&str, impl Fn(&T) -> u64)],
    style: &Style,
) -> String {
    let figures: Vec<_> = figures
        .iter()
        .filter(|(_, get)| rows.iter().any(|(_, before, after)| get(before) != get(after)))
        .collect();
    let mut columns = vec![Column::text(head, 20)];
    columns.extend(figures.iter().map(|(name, _)| Column::right(*name)));
    let mut table = Table::new(columns);
    let arrow = if style.unicode { "→" } else { "->" };
    for (name, before, after) in rows {
        let cells = figures.iter().map(|(_, get)| match (get(before), get(after)) {
            (before, after) if before == after => Cell::new("."),
            (before, after) => Cell::new(format!("{} {arrow} {}", count(before), count(after))),
        });
        table.row(std::iter::once(Cell::new(name)).chain(cells).collect());
    }
    table.render(style)
}
