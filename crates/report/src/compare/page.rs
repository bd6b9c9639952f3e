//! Comparisons: what changed between two measurements of one experiment.

use maud::html;
use ringfence_analysis::estimate::Verdict;
use ringfence_studies::compare::{Cell, Comparison};
use ringfence_studies::whatif::WhatIf;

use crate::compare::text::remarks;
use crate::compare::words::{change, changed, figure, figure_name, name, verdict};
use crate::compare_answer;
use crate::html::figure::{RangeRow, Ranges, Tip};
use crate::html::table::{Align, table};
use crate::html::{Answer, Card, Group, Page, Section};
use crate::numbers;
use crate::text::{capital, clean};
use crate::whatif::text::conclusions;

/// Cells that the first screen has room for; of more, those that changed have cards there.
const MOST_ROWS: usize = 16;
/// Differences besides the figures that the first screen names.
const MOST_DIFFERENCES: usize = 6;
/// Cards on the first screen.
const MOST_CARDS: usize = 6;

/// Two measurements of one experiment.
#[derive(Debug, Clone)]
pub struct Compared {
    /// The experiment's name among several; empty where there is one alone.
    pub name: String,
    /// The first's folder.
    pub before: String,
    /// The second's.
    pub after: String,
    /// What differs.
    pub comparison: Comparison,
}

/// The page of a comparison, or of several, such as those of two surveys; and what was left out, a
/// line each.
pub fn comparisons(all: &[Compared], left_out: &[String]) -> Page {
    let one = if let [one] = all { Some(&one.comparison) } else { None };
    let mut groups: Vec<Group> = all
        .iter()
        .map(|each| Group {
            title: one.is_none().then(|| title(each)),
            sections: sections(&each.comparison, one.is_none()),
        })
        .collect();
    if !left_out.is_empty() {
        let body = html! { ul { @for line in left_out { li { (clean(line)) } } } };
        let section = Section { id: "left-out", title: "Not compared".into(), body };
        groups.push(Group { title: None, sections: vec![section] });
    }
    let subtitle = match all {
        [one] => format!("before: {} · after: {}", clean(&one.before), clean(&one.after)),
        _ => crate::text::plural(all.len(), "comparison"),
    };
    Page {
        title: "Before and after".into(),
        subtitle,
        answer: one.map_or_else(|| of_several(all), of_one),
        groups,
        footer: Vec::new(),
        simulated: all.iter().any(|one| one.comparison.simulated),
    }
}

/// The page of `whatif`.
pub fn whatif(found: &WhatIf) -> Page {
    let compared = Compared {
        name: String::new(),
        before: clean(&found.machine),
        after: format!("the same with {}", crate::whatif::text::changes(found)),
        comparison: found.comparison.clone(),
    };
    let mut page = comparisons(std::slice::from_ref(&compared), &[]);
    page.title = "What if".into();
    page.answer.sentences.extend(conclusions(found).into_iter().skip(1));
    page
}

fn title(one: &Compared) -> String {
    let question = one.comparison.question.as_ref().unwrap_or(&one.comparison.name);
    if one.name.is_empty() { clean(question) } else { clean(&format!("{}: {question}", one.name)) }
}

fn of_one(comparison: &Comparison) -> Answer {
    let question = comparison.question.clone().unwrap_or_else(|| comparison.name.clone());
    let mut besides: Vec<String> = comparison
        .differences
        .iter()
        .take(MOST_DIFFERENCES)
        .map(|one| clean(&format!("{}: {} before, {} after", one.what, one.before, one.after)))
        .collect();
    match comparison.differences.len() {
        0 => besides.push("Nothing but the figures differs.".into()),
        all if all > MOST_DIFFERENCES => {
            besides.push(format!("{} more differences are listed below.", all - MOST_DIFFERENCES));
        }
        _ => {}
    }
    Answer {
        question: clean(&question),
        headline: clean(&compare_answer(comparison)),
        cards: cards(comparison),
        sentences: besides,
        figure: (comparison.cells.len() <= MOST_ROWS).then(|| changes(comparison)),
        ..Answer::default()
    }
}

fn of_several(all: &[Compared]) -> Answer {
    let cells = || all.iter().flat_map(|one| &one.comparison.cells);
    let count = cells().filter(|cell| changed(cell)).count();
    Answer {
        question: "What changed?".into(),
        headline: format!(
            "{count} of {} changed, in {}.",
            crate::text::plural(cells().count(), "cell"),
            crate::text::plural(all.len(), "experiment")
        ),
        sentences: all
            .iter()
            .map(|one| {
                let name = if one.name.is_empty() { &one.comparison.name } else { &one.name };
                clean(&format!("{name}: {}", compare_answer(&one.comparison)))
            })
            .collect(),
        ..Answer::default()
    }
}

fn cards(comparison: &Comparison) -> Vec<Card> {
    let size = |cell: &Cell| cell.change.slowdown.map_or(0.0, |change| change.value.ln().abs());
    let mut most: Vec<&Cell> = comparison.cells.iter().filter(|cell| changed(cell)).collect();
    most.sort_by(|a, b| size(b).total_cmp(&size(a)));
    let card = |cell: &&Cell| {
        let change = change(cell)?;
        Some(Card {
            label: clean(&name(&cell.arm, &cell.label)),
            value: change.value,
            note: format!("{} {}", change.interval, verdict(cell).0),
            color: Some(color(cell).into()),
            ..Card::default()
        })
    };
    most.iter().filter_map(card).take(MOST_CARDS).collect()
}

fn color(cell: &Cell) -> &'static str {
    match cell.change.verdict {
        Verdict::Slower => "bad",
        Verdict::Faster => "good",
        _ => "other",
    }
}

fn sections(comparison: &Comparison, several: bool) -> Vec<Section> {
    let on_first_screen = !several && comparison.cells.len() <= MOST_ROWS;
    let mut sections = Vec::new();
    if !comparison.differences.is_empty() {
        let lines: Vec<Vec<&str>> = comparison
            .differences
            .iter()
            .map(|one| vec![one.what.as_str(), one.before.as_str(), one.after.as_str()])
            .collect();
        let heads = [("what", Align::Left), ("before", Align::Left), ("after", Align::Left)];
        sections.push(Section {
            id: "differences",
            title: "What differs besides the figures".into(),
            body: table("What differs besides the figures", &heads, &lines),
        });
    }
    let body = html! {
        @if several { p class="said" { (clean(&compare_answer(comparison))) } }
        @if on_first_screen { (cells(comparison)) } @else { (changes(comparison)) }
        @for line in remarks(comparison) { p class="note" { (capital(&clean(&line))) "." } }
    };
    sections.push(Section { id: "cells", title: "Cell by cell".into(), body });
    sections
}

// The second figure over the first, cell by cell.
fn changes(comparison: &Comparison) -> maud::Markup {
    let rows: Vec<RangeRow> = comparison.cells.iter().map(row).collect();
    let explanation = "The figure after over the figure before: more is more time or more harm. \
                       Bars are intervals that hold \
                       for all cells at once, with an arrow where they go on beyond the frame; \
                       faint ones may be no change.";
    let ranges = Ranges { axis: "after over before".into(), unit: "slowdown", rows, mark: None };
    ranges.figure("Change of each cell", explanation, cells(comparison))
}

fn row(cell: &Cell) -> RangeRow {
    let name = clean(&name(&cell.arm, &cell.label));
    let known = cell.change.slowdown;
    let shown = |figure: Option<numbers::Figure>| {
        figure.map_or(numbers::NO_FIGURE.into(), |f| f.to_string())
    };
    RangeRow {
        color: color(cell).into(),
        faint: !changed(cell),
        figure: known.map(|change| [change.value, change.low, change.high]),
        text: known
            .map_or(numbers::NO_FIGURE.into(), |change| numbers::slowdown_figure(&change).value),
        tip: Tip::new(&name)
            .with("figure", figure_name(cell))
            .with("before", shown(figure(cell, &cell.before)))
            .with("after", shown(figure(cell, &cell.after)))
            .with("change", shown(change(cell)))
            .with("verdict", verdict(cell).0),
        name,
    }
}

fn cells(comparison: &Comparison) -> maud::Markup {
    let shown = |figure: Option<numbers::Figure>| {
        figure.map_or(numbers::NO_FIGURE.into(), |f| f.to_string())
    };
    let lines: Vec<Vec<String>> = comparison
        .cells
        .iter()
        .map(|cell| {
            vec![
                name(&cell.arm, &cell.label),
                figure_name(cell),
                shown(figure(cell, &cell.before)),
                shown(figure(cell, &cell.after)),
                shown(change(cell)),
                verdict(cell).0,
            ]
        })
        .collect();
    let heads = [
        ("case", Align::Left),
        ("figure", Align::Left),
        ("before", Align::Right),
        ("after", Align::Right),
        ("change", Align::Right),
        ("verdict", Align::Left),
    ];
    table("Every cell before and after", &heads, &lines)
}
