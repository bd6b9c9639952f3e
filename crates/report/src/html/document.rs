//! The document around a page's content: head, style, script, and the first screen.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::{Answer, Card, Group, Page, Section};

const STYLE: &str = include_str!("../../assets/page.css");
const SCRIPT: &str = include_str!("../../assets/page.js");
const CHARTS: &str = include_str!("../../assets/echarts.min.js");
const NOTICE: &str = include_str!("../../assets/NOTICE");

// Nothing may be fetched, sent or framed; what runs and how it looks is in the page.
const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; form-action 'none'; base-uri 'none'";

/// The whole file.
pub fn page(page: &Page) -> String {
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="generator" content=(concat!("ringfence ", env!("CARGO_PKG_VERSION")));
                title { (page.title) " · Ringfence" }
                link rel="icon" href="data:,";
                style { (PreEscaped(STYLE)) }
            }
            body {
                (content(page))
                script type="text/plain" id="licences" { (PreEscaped(NOTICE)) }
                script { (PreEscaped(CHARTS)) }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    markup.into_string()
}

/// What is between head and scripts: all of the page that depends on the figures.
pub(super) fn content(page: &Page) -> Markup {
    html! {
        header class="top" {
            div class="name" {
                span class="mark" aria-hidden="true" {}
                strong { "Ringfence" }
                span class="what" { (page.title) }
            }
            button type="button" id="theme" title="Light or dark" aria-label="Switch between light and dark" { "◐" }
        }
        main {
            (answer(&page.answer, &page.subtitle))
            @if page.groups.iter().any(|group| !group.sections.is_empty()) {
                nav aria-label="Sections" {
                    @for (number, group) in page.groups.iter().enumerate() {
                        @if let Some(title) = &group.title {
                            a class="group" href={ "#" (anchor(number, "top")) } { (title) }
                        } @else {
                            @for section in &group.sections {
                                a href={ "#" (anchor(number, section.id)) } { (section.title) }
                            }
                        }
                    }
                }
            }
            @for (number, group) in page.groups.iter().enumerate() { (self::group(number, group)) }
        }
        footer {
            @for line in &page.footer { p { (line) } }
        }
    }
}

fn answer(answer: &Answer, subtitle: &str) -> Markup {
    html! {
        section class={ "answer" @if answer.figure.is_none() { " alone" } } {
            div class="words" {
                @if !answer.question.is_empty() { p class="question" { (answer.question) } }
                h1 { (answer.headline) }
                p class="subtitle" { (subtitle) }
                @if !answer.cards.is_empty() {
                    div class="cards" { @for card in &answer.cards { (self::card(card)) } }
                }
                @if !answer.sentences.is_empty() {
                    ul { @for sentence in &answer.sentences { li { (sentence) } } }
                }
            }
            @if let Some(figure) = &answer.figure { (figure) }
        }
    }
}

fn card(card: &Card) -> Markup {
    html! {
        div class="card" data-color=[card.color.as_deref()] {
            span class="label" { (card.label) }
            span class="value" { (card.value) }
            span class="note" { (card.note) }
        }
    }
}

fn group(number: usize, group: &Group) -> Markup {
    html! {
        @if let Some(title) = &group.title {
            h2 class="group" id=(anchor(number, "top")) { (title) }
        }
        @for section in &group.sections { (self::section(number, section)) }
    }
}

fn section(group: usize, section: &Section) -> Markup {
    html! {
        section class={ "part " (section.id) } id=(anchor(group, section.id)) {
            h2 { (section.title) }
            (section.body)
        }
    }
}

// Sections of several datasets have the same names.
fn anchor(group: usize, id: &str) -> String {
    if group == 0 { id.into() } else { format!("{id}-{group}") }
}
