//! Two datasets of one experiment: what differs besides the figures, then the change of each cell.

use super::words;
use ringfence_studies::compare::{Cell as Compared, Comparison, Side};

use crate::numbers::{NO_FIGURE, percent};
use crate::style::{Paint, Style};
use crate::table::{Cell, Column, Table};
use crate::text::{faint, heading, paragraph};

use super::words::{change, figure, figure_name, name, not_estimable, reading, reason, verdict};

/// Cases that are named where many are missing for one reason.
const MOST_NAMED: usize = 6;

/// A comparison: how many cells changed, then a line for each; with [`Style::details`], tables with
/// both sides and a few lines on how to read them.
pub fn compare(comparison: &Comparison, style: &Style) -> String {
    let mut out = String::new();
    if comparison.simulated {
        heading(&mut out, crate::experiment::text::SIMULATED, style);
    }
    if let Some(question) = &comparison.question {
        heading(&mut out, question, style);
    }
    if !style.details {
        brief(&mut out, comparison, style);
        return out;
    }
    if comparison.question.is_some() {
        out.push('\n');
    }
    if comparison.differences.is_empty() {
        paragraph(&mut out, 0, "nothing but the figures differs", style);
    } else {
        let columns = [("what differs", 12), ("before", 20), ("after", 20)];
        let mut table = Table::new(columns.map(|(head, least)| Column::text(head, least)).into());
        for difference in &comparison.differences {
            let cells = [&difference.what, &difference.before, &difference.after];
            table.row(cells.map(Cell::new).into());
        }
        out.push_str(&table.render(style));
    }
    out.push('\n');
    let table = cells(comparison);
    if table.fits(style) {
        out.push_str(&table.render(style));
    } else {
        list(&mut out, comparison, style);
    }
    out.push('\n');
    for line in remarks(comparison) {
        paragraph(&mut out, 0, &line, style);
    }
    out.push('\n');
    paragraph(&mut out, 0, &compare_answer(comparison), style);
    out
}

fn brief(out: &mut String, comparison: &Comparison, style: &Style) {
    paragraph(out, 0, &compare_answer(comparison), style);
    let several =
        comparison.cells.iter().any(|cell| figure_name(cell) != figure_name(&comparison.cells[0]));
    let columns =
        [Column::text("case", 16), Column::text("change", 14), Column::text("verdict", 12)];
    let mut table = Table::new(columns.into());
    for cell in &comparison.cells {
        let mut case = name(&cell.arm, &cell.label);
        if several {
            case += &format!(", {}", figure_name(cell));
        }
        let change = change(cell).map_or(NO_FIGURE.into(), |figure| figure.to_string());
        let (words, paint) = verdict(cell);
        let verdict = words.split(':').next().unwrap_or_default();
        table.row(vec![Cell::new(case), Cell::new(change), Cell::painted(verdict, paint)]);
    }
    out.push_str(&table.render(style));
    let mut notes = vec![format!(
        "Change: after over before; all intervals together hold with {}.",
        percent(comparison.confidence)
    )];
    if !comparison.differences.is_empty() {
        let names: Vec<&str> = comparison.differences.iter().map(|one| &*one.what).collect();
        notes.push(format!("Besides, these differ: {}.", names.join(", ")));
    }
    match comparison.missing.len() {
        0 => {}
        1 => notes.push("1 case is on one side only.".into()),
        count => notes.push(format!("{count} cases are on one side only.")),
    }
    notes.push("Both sides and reasons: -v".into());
    faint(out, &notes.join(" "), style);
}

fn cells(comparison: &Comparison) -> Table {
    let heads = ["before", "after", "change"];
    let mut columns = vec![Column::text("case", 16), Column::text("figure", 8)];
    columns.extend(heads.iter().flat_map(|head| [Column::right(*head), Column::left("interval")]));
    columns.push(Column::text("verdict", 14));
    let mut table = Table::new(columns);
    for cell in &comparison.cells {
        let mut row = vec![Cell::new(name(&cell.arm, &cell.label)), Cell::new(figure_name(cell))];
        for shown in [figure(cell, &cell.before), figure(cell, &cell.after), change(cell)] {
            match shown {
                Some(figure) => row.extend([Cell::new(figure.value), Cell::new(figure.interval)]),
                None => row.extend([Cell::new(NO_FIGURE), Cell::default()]),
            }
        }
        let (words, paint) = verdict(cell);
        row.push(Cell::painted(words, paint));
        table.row(row);
    }
    table
}

/// For narrow terminals: a few lines for each cell.
fn list(out: &mut String, comparison: &Comparison, style: &Style) {
    let shown =
        |figure: Option<crate::numbers::Figure>| figure.map_or(NO_FIGURE.into(), |f| f.to_string());
    for cell in &comparison.cells {
        paragraph(
            out,
            0,
            &format!("{}, {}", name(&cell.arm, &cell.label), figure_name(cell)),
            style,
        );
        let sides = format!(
            "before {}, after {}",
            shown(figure(cell, &cell.before)),
            shown(figure(cell, &cell.after))
        );
        paragraph(out, 2, &sides, style);
        let change = change(cell).map_or_else(String::new, |change| format!("{change}: "));
        paragraph(out, 2, &format!("{change}{}", verdict(cell).0), style);
    }
}

/// What stands below the tables.
pub(crate) fn remarks(comparison: &Comparison) -> Vec<String> {
    [missing(comparison), not_estimable(comparison), reading(comparison)].concat()
}

// One line for each reason and each side.
fn missing(comparison: &Comparison) -> Vec<String> {
    let mut groups: Vec<(Side, String, Vec<String>)> = Vec::new();
    for missing in &comparison.missing {
        let (name, why) = (name(&missing.arm, &missing.label), reason(missing));
        match groups
            .iter_mut()
            .find(|(side, known, _)| *side == missing.missing_from && *known == why)
        {
            Some((.., names)) => names.push(name),
            None => groups.push((missing.missing_from, why, vec![name])),
        }
    }
    let line = |(side, why, names): (Side, String, Vec<String>)| {
        let side = if side == Side::Before { "not before" } else { "not after" };
        let more = match names.len().saturating_sub(MOST_NAMED) {
            0 => String::new(),
            more => format!("; and {more} more"),
        };
        let named = names.into_iter().take(MOST_NAMED).collect::<Vec<_>>().join("; ");
        format!("{side}: {named}{more}{why}")
    };
    groups.into_iter().map(line).collect()
}

/// The verdict of a whole comparison in a sentence: how many cells changed, and which most.
pub fn compare_answer(comparison: &Comparison) -> String {
    let count =
        |paint: fn(&Compared) -> bool| comparison.cells.iter().filter(|cell| paint(cell)).count();
    let changed = count(words::changed);
    let undecided = count(|cell| verdict(cell).1 == Paint::Caution);
    let same = comparison.cells.len() - changed - undecided;
    let mut text = match (comparison.cells.len(), changed, same) {
        (1, 1, _) => "The one cell changed.".into(),
        (1, _, 1) => "The one cell did not change by more than the margin.".into(),
        (1, ..) => "The one cell is undecided.".into(),
        (cells, ..) => format!(
            "Of {cells} cells {changed} changed, {same} did not change by more than the margin, \
             and {undecided} {} undecided.",
            if undecided == 1 { "is" } else { "are" }
        ),
    };
    let size =
        |cell: &&Compared| cell.change.slowdown.map_or(0.0, |change| change.value.ln().abs());
    let most = comparison.cells.iter().filter(|cell| words::changed(cell));
    if let Some(most) = most.max_by(|a, b| size(a).total_cmp(&size(b))) {
        let shown = change(most).map_or_else(String::new, |figure| figure.to_string());
        text += &format!(
            " The largest change is that of {}: {}, {shown}.",
            name(&most.arm, &most.label),
            verdict(most).0
        );
    }
    text
}
