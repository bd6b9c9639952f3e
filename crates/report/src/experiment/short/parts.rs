//! What a short text is made of.

/// The parts of a short text.
#[derive(Default)]
pub(crate) struct Short {
    /// Sentences, a paragraph each; the first answers the question.
    pub(crate) answer: Vec<String>,
    /// The calls to make.
    pub(crate) call: Option<String>,
    /// What supports the answer.
    pub(crate) tables: Vec<String>,
    /// What limits it, sentence by sentence.
    pub(crate) caveats: Vec<String>,
}
