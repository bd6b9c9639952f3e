//! The report as one HTML file: it opens offline from disk, asks nothing of any network, and has its
//! figures, their numbers as tables, and all that is needed to measure again.
//!
//! A [`Page`] is a title, an [`Answer`] that fills the first screen, and [`Section`]s, each made by a
//! function of values in a file of its own. Another kind of page is another function that puts an answer
//! and sections together, as [`survey`] and [`datasets`] do; [`page`] turns it into text.
//!
//! Whatever comes from a file (names, questions, command lines) is text to the page, never markup:
//! [`maud`] escapes it in HTML, `figure` in the JSON that figures are drawn from, and the script builds
//! hover texts from text nodes. A content security policy in the page forbids every request.

mod aa;
mod answer;
mod compare;
mod costs;
mod digest;
mod doctor;
mod document;
mod experiment;
mod figure;
mod frontier;
mod latencies;
mod not_run;
mod pages;
mod pair;
mod placement;
mod probes;
mod prove;
mod sensitivity;
mod slowdowns;
mod table;
mod timeline;

use maud::Markup;

pub use compare::{Compared, comparisons};
pub use digest::Digest;
pub use document::page;
pub use pages::{datasets, pairs, proof, survey};

/// A page: what [`page`] makes a file of.
pub struct Page {
    /// The title of the window and of the page.
    pub title: String,
    /// A line below it: which machine, when.
    pub subtitle: String,
    /// The first screen.
    pub answer: Answer,
    /// What follows, in groups; a group without a title continues the page.
    pub groups: Vec<Group>,
    /// The last lines: where the figures come from.
    pub footer: Vec<String>,
}

/// The first screen: the answer in words, and a figure beside it.
#[derive(Default)]
pub struct Answer {
    /// The question that is answered.
    pub question: String,
    /// The answer in a sentence or two.
    pub headline: String,
    /// Figures worth a card of their own.
    pub cards: Vec<Card>,
    /// What else follows, in sentences.
    pub sentences: Vec<String>,
    /// Commands that do what is advised, each a line for a shell.
    pub commands: Vec<String>,
    /// The figure, such as the frontier.
    pub figure: Option<Markup>,
}

/// One figure in large type.
pub struct Card {
    /// What it is.
    pub label: String,
    /// The figure.
    pub value: String,
    /// Its interval, or what it is compared with.
    pub note: String,
    /// The colour of a way to write or of a class, such as `nt`; none for ink.
    pub color: Option<String>,
}

/// Sections under one heading.
pub struct Group {
    /// The heading, such as a dataset's name.
    pub title: Option<String>,
    /// The sections.
    pub sections: Vec<Section>,
}

/// One part of the page.
pub struct Section {
    /// Its anchor, unique in its group: lower-case letters and `-`.
    pub id: &'static str,
    /// Its heading.
    pub title: String,
    /// What it shows.
    pub body: Markup,
}
