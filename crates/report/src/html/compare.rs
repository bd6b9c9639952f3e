//! The page of a comparison: what differs besides the figures, then the change of each cell.

use maud::{Markup, html};
use ringfence_lab::compare::Comparison;

use super::table::{Align, table};
use super::{Answer, Group, Page, Section};
use crate::compare::words::{change, figure, figure_name, name, verdict};
use crate::compare::{compare_answer, remarks};
use crate::numbers::NO_FIGURE;

/// The page of two datasets or surveys: each comparison with the names of its datasets, and lines on what
/// could not be compared.
pub fn comparison(compared: &[(String, &Comparison)], left_out: &[String]) -> Page {
    let several = compared.len() > 1;
    let mut groups: Vec<Group> = compared
        .iter()
        .map(|(title, comparison)| Group {
            title: several.then(|| title.clone()),
            sections: sections(comparison),
        })
        .collect();
    if !left_out.is_empty() {
        let body = html! { @for line in left_out { p { (line) } } };
        let section = Section { id: "left-out", title: "Not compared".into(), body };
        groups.push(Group { title: None, sections: vec![section] });
    }
    let answer = match compared {
        [(_, one)] => Answer {
            question: one.question.clone().unwrap_or_else(|| one.name.clone()),
            headline: compare_answer(one),
            ..Answer::default()
        },
        _ => Answer {
            question: format!("What changed in {} experiments?", compared.len()),
            headline: "What each of them shows:".into(),
            sentences: compared
                .iter()
                .map(|(title, one)| format!("{title}: {}", compare_answer(one)))
                .collect(),
            ..Answer::default()
        },
    };
    let subtitle = compared.first().map_or_else(String::new, |(title, _)| title.clone());
    Page {
        title: "Before and after".into(),
        subtitle: if several { String::new() } else { subtitle },
        answer,
        groups,
        footer: vec![concat!("Ringfence ", env!("CARGO_PKG_VERSION")).into()],
    }
}

fn sections(comparison: &Comparison) -> Vec<Section> {
    let mut sections = Vec::new();
    if !comparison.differences.is_empty() {
        let heads = [("what", Align::Left), ("before", Align::Left), ("after", Align::Left)];
        let rows: Vec<Vec<&str>> = comparison
            .differences
            .iter()
            .map(|one| vec![one.what.as_str(), one.before.as_str(), one.after.as_str()])
            .collect();
        let title = "What differs besides the figures".into();
        sections.push(Section { id: "differences", title, body: table(&heads, &rows) });
    }
    sections.push(Section { id: "cells", title: "Cell by cell".into(), body: cells(comparison) });
    sections
}

fn cells(comparison: &Comparison) -> Markup {
    let heads = [
        ("case", Align::Left),
        ("figure", Align::Left),
        ("before", Align::Right),
        ("after", Align::Right),
        ("change", Align::Right),
        ("verdict", Align::Left),
    ];
    let rows: Vec<Vec<String>> = comparison
        .cells
        .iter()
        .map(|cell| {
            let figures = [figure(cell, &cell.before), figure(cell, &cell.after), change(cell)];
            let figures = figures.map(|figure| figure.map_or(NO_FIGURE.into(), |figure| figure.to_string()));
            let mut row = vec![name(&cell.arm, &cell.label), figure_name(cell)];
            row.extend(figures);
            row.push(verdict(cell).0);
            row
        })
        .collect();
    html! {
        (table(&heads, &rows))
        @for line in remarks(comparison) { p { (line) } }
    }
}
