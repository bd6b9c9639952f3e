//! The page of a program's crash states.

use maud::html;
use ringfence_crash::{Answer, Found};

use super::{notes, text};
use crate::html::table::{Align, table};
use crate::html::{self, Group, Page, Section};

/// The page.
pub fn page(answer: &Answer) -> Page {
    let lints = notes::lints(answer).into_iter().map(|lint| format!("Lint: {lint}"));
    let findings = answer.findings.iter().enumerate();
    let sections: Vec<Section> =
        findings.map(|(number, found)| finding(number + 1, found, answer)).collect();
    Page {
        title: "Crash states".into(),
        subtitle: answer.command.join(" "),
        answer: html::Answer {
            question: "After which crash does recovery lose or corrupt data?".into(),
            headline: text::headline(answer),
            sentences: notes::notes(answer).into_iter().chain(lints).collect(),
            ..html::Answer::default()
        },
        groups: sections
            .into_iter()
            .map(|section| Group { title: None, sections: vec![section] })
            .collect(),
        footer: vec![notes::rules(answer)],
        simulated: false,
    }
}

fn finding(number: usize, found: &Found, answer: &Answer) -> Section {
    let rows: Vec<Vec<String>> = text::story(found, answer)
        .into_iter()
        .map(|(lead, text)| vec![lead.to_owned(), text])
        .collect();
    Section {
        id: "cause",
        title: format!("{number}. {}", text::title_of(found)),
        body: html! {
            (table("What happened", &[("", Align::Left), ("", Align::Left)], &rows))
            p { "Run recovery on these files without Ringfence:" }
            pre { (text::rerun(found)) }
        },
    }
}
