//! What writers slow down: a table per victim.

use ringfence_analysis::estimate::Verdict;
use ringfence_experiment::task::Task;
use ringfence_studies::survey::answer::Seen;
use ringfence_studies::survey::{NeighbourRow, Neighbours, Survey};

use crate::numbers;
use crate::print::unknown::Unknown;
use crate::style::{Paint, Style};
use crate::table::{Cell, Column, Table};
use crate::text::{distinct, faint, heading, paragraph, plural};

pub(crate) fn section(out: &mut String, survey: &Survey, style: &Style) {
    for table in &survey.neighbours {
        let paced = survey.pace.as_deref();
        heading(out, &title(table, survey), style);
        out.push_str(&render(table, paced, style));
        out.push('\n');
    }
    if let Some(text) = perhaps(survey) {
        faint(out, &text, style);
        out.push('\n');
    }
}

/// One row for each writer and one column for each victim: the slowdown where one is seen, and `.`
/// where that is undecided.
pub(crate) fn matrix(out: &mut String, survey: &Survey, style: &Style) {
    let rows = survey.neighbours.iter().flat_map(|table| &table.rows).filter(|row| !row.paced);
    let writers = distinct(rows.map(|row| row.label.as_str()));
    if writers.is_empty() {
        return;
    }
    let mut columns = vec![Column::left("co-runner")];
    columns.extend(survey.neighbours.iter().map(|of| Column::right(of.task.name())));
    let mut table = Table::new(columns);
    let mut decided = 0;
    for writer in writers {
        let mut cells = vec![Cell::new(writer)];
        for of in &survey.neighbours {
            let row = of.rows.iter().find(|row| !row.paced && row.label == writer);
            let figure = row.and_then(seen);
            decided += usize::from(figure.is_some());
            cells.push(figure.unwrap_or_else(|| Cell::new(if row.is_some() { "." } else { "" })));
        }
        table.row(cells);
    }
    if decided == 0 {
        return;
    }
    heading(out, "Change of a task's time next to each co-runner", style);
    out.push_str(&table.render(style));
    let mut legend = "Blocks of 4KiB where none is named. '.': undecided".to_string();
    if perhaps(survey).is_some() {
        legend += "; '?': may be chance";
    }
    faint(out, &legend, style);
}

// None if that is undecided.
fn seen(row: &NeighbourRow) -> Option<Cell> {
    let effect = row.result.effect.as_ref()?;
    let figure = numbers::slowdown(effect.by_class.all.slowdown.as_ref().ok()?);
    match &effect.finding.verdict {
        Verdict::Slower if row.seen == Seen::Perhaps => {
            Some(Cell::painted(format!("{figure} ?"), Paint::Caution))
        }
        Verdict::Slower => Some(Cell::painted(figure, Paint::Bad)),
        Verdict::Faster if perhaps_faster(row) => Some(Cell::new(format!("{figure} ?"))),
        Verdict::Faster => Some(Cell::new(figure)),
        Verdict::NoChangeLargerThanMargin => Some(verdict(row)),
        Verdict::Undecided { .. } | Verdict::NotEstimable(_) => None,
    }
}

/// What a question mark behind a verdict means; none where there is none.
pub(crate) fn perhaps(survey: &Survey) -> Option<String> {
    let rows = survey.neighbours.iter().flat_map(|table| &table.rows);
    let seen = rows.clone().filter(|row| row.seen != Seen::NotKnown).count();
    let slower = rows.clone().any(|row| row.seen == Seen::Perhaps).then_some("slower?");
    let faster = rows.clone().any(perhaps_faster).then_some("faster?");
    let words: Vec<&str> = slower.into_iter().chain(faster).collect();
    let what = match words[..] {
        [] => return None,
        ["slower?"] => "a slowdown",
        _ => "a change",
    };
    Some(format!(
        "{}: this comparison's own interval shows {what}, but among {seen} comparisons a few do so \
         by chance; with intervals wide enough to hold for all {seen} at once, there may be none",
        words.join(", ")
    ))
}

// Whether a victim gains by its own interval, and not by one that holds together with all the
// others.
fn perhaps_faster(row: &NeighbourRow) -> bool {
    let verdict = row.result.effect.as_ref().map(|effect| &effect.finding.verdict);
    verdict == Some(&Verdict::Faster) && row.together.is_none_or(|all| all.high >= 1.0)
}

fn title(table: &Neighbours, survey: &Survey) -> String {
    let what = match &table.task {
        Task::Chase(chase) => {
            format!(
                "a pointer chase through {} ({})",
                chase.footprint, survey.probes.victim_footprint_from
            )
        }
        Task::Mcf(mcf) => format!("mcf, a network simplex of {}", mcf.footprint),
        Task::Alu(_) => "alu, arithmetic in registers".into(),
        other => other.name().into(),
    };
    format!("What slows {what}")
}

fn render(neighbours: &Neighbours, pace: Option<&str>, style: &Style) -> String {
    let any_paced = neighbours.rows.iter().any(|row| row.paced);
    let mut columns = vec![
        Column::left("next to"),
        Column::right("time per unit"),
        Column::left("verdict"),
        Column::right("its rate"),
    ];
    if any_paced {
        columns.push(Column::right(format!("paced to {}", pace.unwrap_or("?"))));
        columns.push(Column::right("its rate"));
    }
    columns.push(Column::left("class"));
    let mut table = Table::new(columns);
    for row in neighbours.rows.iter().filter(|row| !row.paced) {
        let paced = neighbours.rows.iter().find(|other| other.paced && other.label == row.label);
        let mut cells =
            vec![Cell::new(&row.label), slowdown(row), verdict(row), Cell::new(rate(row))];
        if any_paced {
            cells.push(paced.map_or_else(Cell::default, slowdown));
            cells.push(Cell::new(paced.map_or_else(String::new, rate)));
        }
        cells.push(Cell::new(classes(row)));
        table.row(cells);
        for (class, pairs, figure) in by_class(row) {
            let mut cells = vec![
                Cell::painted(format!("  {class}"), Paint::Faint),
                Cell::painted(figure, Paint::Faint),
            ];
            cells.push(Cell::painted(plural(pairs, "pair"), Paint::Faint));
            table.row(cells);
        }
    }
    let mut out = table.render(style);
    if neighbours.rows.is_empty() {
        paragraph(&mut out, 2, "nothing was measured", style);
    }
    out
}

fn slowdown(row: &NeighbourRow) -> Cell {
    let Some(effect) = &row.result.effect else { return Cell::default() };
    match &effect.by_class.all.slowdown {
        Ok(interval) => {
            let text = numbers::slowdown(interval);
            match row.seen {
                Seen::Slows => Cell::painted(text, Paint::Bad),
                Seen::Perhaps => Cell::painted(text, Paint::Caution),
                _ => Cell::new(text),
            }
        }
        Err(reason) => Cell::painted(reason.short(), Paint::Faint),
    }
}

fn verdict(row: &NeighbourRow) -> Cell {
    let Some(effect) = &row.result.effect else { return Cell::default() };
    match &effect.finding.verdict {
        Verdict::Slower if row.seen == Seen::Perhaps => Cell::painted("slower?", Paint::Caution),
        Verdict::Slower => Cell::painted("slower", Paint::Bad),
        Verdict::Faster if perhaps_faster(row) => Cell::painted("faster?", Paint::Caution),
        Verdict::Faster => Cell::new("faster"),
        Verdict::NoChangeLargerThanMargin => Cell::painted(
            format!("within {}", numbers::percent(effect.finding.margin)),
            Paint::Good,
        ),
        Verdict::Undecided { .. } => Cell::painted("undecided", Paint::Caution),
        Verdict::NotEstimable(reason) => Cell::new(reason.short()),
    }
}

fn rate(row: &NeighbourRow) -> String {
    let Some(other) = row.result.co_runners.first() else { return String::new() };
    match other.bytes_per_s {
        Some(bytes) => numbers::bytes_per_s(bytes),
        None if other.units_per_s > 0.0 => numbers::units_per_s(other.units_per_s, ""),
        None => String::new(),
    }
}

// The class of most pairs, and the share of it where there were others.
fn classes(row: &NeighbourRow) -> String {
    let classes = &row.result.classes;
    let all: usize = classes.values().sum();
    match classes.iter().max_by_key(|(_, windows)| **windows) {
        Some((class, windows)) if *windows == all => class.to_string(),
        Some((class, windows)) => format!("{class} {:.0} %", *windows as f64 / all as f64 * 100.0),
        None => String::new(),
    }
}

// Slowdowns by class, where several were seen; classes too rare for a figure are in the dataset and
// in the figure over all, but not on the screen.
fn by_class(row: &NeighbourRow) -> Vec<(String, usize, String)> {
    let Some(effect) = &row.result.effect else { return Vec::new() };
    let classes = &effect.by_class.classes;
    if classes.len() < 2 {
        return Vec::new();
    }
    classes
        .iter()
        .filter_map(|(class, of)| {
            let slowdown = of.slowdown.as_ref().ok()?;
            Some((class.to_string(), of.pairs as usize, numbers::slowdown(slowdown)))
        })
        .collect()
}
