//! The report as one HTML file: it opens offline from disk, asks nothing of any network, and has
//! its figures, their numbers as tables, and all that is needed to measure again.
//!
//! A [`Page`] is a title, an [`Answer`] that fills the first screen, and [`Section`]s, each made by
//! a function of values in a file of its own. Another kind of page is another function that puts an
//! answer and sections together, as [`survey`] and [`datasets`] do; [`page`] turns it into text.
//!
//! Whatever comes from a file (names, questions, command lines) is text to the page, never markup:
//! [`maud`] escapes it in HTML, `figure` in the JSON that figures are drawn from, and the script
//! builds hover texts from text nodes. A content security policy in the page forbids every request.

pub(crate) mod answer;
pub(crate) mod datasets;
pub(crate) mod document;
pub(crate) mod figure;
pub(crate) mod table;

use maud::Markup;

pub use crate::compare::page::{Compared, comparisons, whatif};
pub use crate::crash::page::page as crash;
pub use crate::execution::page::page as executed;
pub use crate::pair::page::page as pairs;
pub use crate::prove::page::page as proof;
pub use crate::reproduce::page::page as simulated;
pub use crate::survey::page::page as survey;
pub use crate::versus::page::versus;
pub use datasets::datasets;
pub use document::page;
pub use figure::{RangeRow, Ranges, Tip};
pub use ringfence_studies::digest::Digest;
pub use table::{Align, table};

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
    /// Whether figures were simulated: the page and each of its pictures say so.
    pub simulated: bool,
}

/// The first screen: the answer in words, what to do, and a figure.
#[derive(Default)]
pub struct Answer {
    /// The verdict, where there is one.
    pub badge: Option<Badge>,
    /// The question that is answered.
    pub question: String,
    /// The answer in a sentence.
    pub headline: String,
    /// What else belongs to the answer.
    pub besides: Vec<String>,
    /// How to do what is advised, and the commands that do it, each a line for a shell.
    pub keep: Option<(String, Vec<String>)>,
    /// Figures worth a card of their own.
    pub cards: Vec<Card>,
    /// What else follows, in sentences.
    pub sentences: Vec<String>,
    /// What few will ask for: a title, and lines that are folded away.
    pub folded: Option<(String, Vec<String>)>,
    /// The figure, such as the frontier.
    pub figure: Option<Markup>,
    /// Where everything is on a wide screen.
    pub layout: Layout,
}

/// Where the parts of an answer are on a wide screen; on a narrow one they follow each other.
#[derive(Default, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// Words to the left, the figure to the right.
    #[default]
    Beside,
    /// The answer and its cards across the page, then sentences to the left and the figure to the
    /// right.
    Across,
    /// One below the other, all across the page.
    Stacked,
}

/// A verdict in a word.
pub struct Badge {
    /// The word, such as MET.
    pub word: &'static str,
    /// What else belongs to it; may be empty.
    pub how: &'static str,
    /// `good`, `bad`, `caution` or `other`.
    pub color: &'static str,
}

/// One figure in large type.
#[derive(Default)]
pub struct Card {
    /// What it is.
    pub label: String,
    /// The figure.
    pub value: String,
    /// Its interval, or what it is compared with.
    pub note: String,
    /// What else is known of it, each with a name.
    pub facts: Vec<(&'static str, String)>,
    /// The colour of a method to write or of a class, such as `nt`; none for ink.
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
