//! The document around a page's content: head, style, script, and the first screen.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::experiment::text::SIMULATED;
use crate::numbers::unbroken;
use crate::text::clean;

use crate::html::{Answer, Badge, Card, Group, Layout, Page, Section};

const STYLE: &str = include_str!("../../assets/page.css");
const SCRIPT: &str = include_str!("../../assets/page.js");
const CHARTS: &str = include_str!("../../assets/echarts.min.js");
const NOTICE: &str = include_str!("../../assets/NOTICE");

// Nothing may be fetched, sent or framed; what runs and how it looks is in the page.
const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; \
                      img-src data:; form-action 'none'; base-uri 'none'";

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
                title { (clean(&page.title)) " · Ringfence" }
                link rel="icon" href="data:,";
                style { (PreEscaped(STYLE)) }
            }
            body {
                (PreEscaped(harmless(&content(page).into_string())))
                script type="text/plain" id="licences" { (PreEscaped(NOTICE)) }
                script { (PreEscaped(CHARTS)) }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    markup.into_string()
}

// Characters that turn the direction of others round, or cannot be seen, deceive in a name. They
// stay in experiment files, which are to be copied as they are; nothing else is preformatted.
fn harmless(markup: &str) -> String {
    let plain = |text: &str| -> String {
        let seen = |c: char| match c {
            '\n' | '\t' => c,
            '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' => '?',
            c if c.is_control() => '?',
            c => c,
        };
        text.chars().map(seen).collect()
    };
    let shown = |text: &str| unbroken(&plain(text));
    let mut parts = markup.split("<pre>");
    let mut out = shown(parts.next().unwrap_or_default());
    for part in parts {
        let (kept, rest) = part.split_once("</pre>").unwrap_or((part, ""));
        out.push_str(&format!("<pre>{kept}</pre>{}", shown(rest)));
    }
    out
}

/// What is between head and scripts: all of the page that depends on the figures.
pub(crate) fn content(page: &Page) -> Markup {
    html! {
        header class="top" {
            div class="name" {
                span class="mark" aria-hidden="true" {}
                strong { "Ringfence" }
                span class="what" { (page.title) }
                @if page.simulated { strong class="simulated" { (SIMULATED) } }
            }
            button type="button" id="theme" title="Light or \
                dark" aria-label="Switch between light and dark" { "◐" }
        }
        main class=[page.simulated.then_some("simulated")] {
            (answer(&page.answer, &page.subtitle))
            @if page.groups.iter().map(|group| group.sections.len()).sum::<usize>() > 1 {
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
            @for (number, group) in page.groups.iter().enumerate() {
                (self::group(number, group))
            }
        }
        @if !page.footer.is_empty() {
            footer { @for line in &page.footer { p { (line) } } }
        }
    }
}

fn answer(answer: &Answer, subtitle: &str) -> Markup {
    let large = answer.cards.iter().any(|card| !card.facts.is_empty());
    let layout = match answer.layout {
        Layout::Beside if answer.figure.is_some() => "",
        Layout::Across if answer.figure.is_some() => " across",
        _ => " stacked",
    };
    html! {
        section class={ "answer" (layout) } {
            div class="words" {
                @if let Some(badge) = &answer.badge { (self::badge(badge)) }
                @if !answer.question.is_empty() { p class="question" { (answer.question) } }
                h1 { (answer.headline) }
                @if !answer.besides.is_empty() { p class="said" { (answer.besides.join(" ")) } }
                p class="subtitle" { (subtitle) }
                @if let Some((how, commands)) = &answer.keep {
                    div class="keep" {
                        p { strong { "Keep it: " } (how) }
                        @for line in commands { (command(line)) }
                    }
                }
                @if !answer.cards.is_empty() {
                    div class={ "cards" @if large { " large" } } {
                        @for card in &answer.cards { (self::card(card)) }
                    }
                }
            }
            @if let Some(figure) = &answer.figure { (figure) }
            @if !answer.sentences.is_empty() || answer.folded.is_some() {
                div class="rest" {
                    @if !answer.sentences.is_empty() {
                        ul { @for sentence in &answer.sentences { li { (sentence) } } }
                    }
                    @if let Some((title, lines)) = &answer.folded {
                        details class="folded" {
                            summary { (title) }
                            ul { @for line in lines { li { (line) } } }
                        }
                    }
                }
            }
        }
    }
}

fn badge(badge: &Badge) -> Markup {
    html! {
        p class="verdict" {
            strong class="badge" data-color=(badge.color) { (badge.word) }
            @if !badge.how.is_empty() { " " span { (badge.how) } }
        }
    }
}

// On one line however long, and to be had whole.
pub(crate) fn command(line: &str) -> Markup {
    html! {
        div class="command" {
            pre { (clean(line)) }
            (copy("the command"))
        }
    }
}

/// A button that copies the preformatted text beside it.
pub(crate) fn copy(what: &str) -> Markup {
    html! {
        button type="button" class="copy" aria-live="polite" {
            "Copy"
            span class="unseen" { " " (what) }
        }
    }
}

fn card(card: &Card) -> Markup {
    html! {
        div class="card" data-color=[card.color.as_deref()] {
            span class="label" { (card.label) }
            span class="value" { (card.value) }
            span class="note" { (card.note) }
            @if !card.facts.is_empty() {
                dl { @for (name, fact) in &card.facts { dt { (name) } dd { (fact) } } }
            }
        }
    }
}

// Those with a title are folded: the answer above rests on all of them, and few readers want every
// one. A link to the anchor opens it, since that lies within.
fn group(number: usize, group: &Group) -> Markup {
    let sections = html! {
        @for section in &group.sections { (self::section(number, section, group.title.is_some())) }
    };
    let top = anchor(number, "top");
    html! {
        @match &group.title {
            Some(title) => details class="group" {
                summary { h2 { (title) } }
                div id=(top) { (sections) }
            },
            None => (sections),
        }
    }
}

fn section(group: usize, section: &Section, below: bool) -> Markup {
    html! {
        section class={ "part " (section.id) } id=(anchor(group, section.id)) {
            @if below { h3 class="title" { (section.title) } } @else { h2 { (section.title) } }
            (section.body)
        }
    }
}

// Sections of several datasets have the same names.
fn anchor(group: usize, id: &str) -> String {
    if group == 0 { id.into() } else { format!("{id}-{group}") }
}
