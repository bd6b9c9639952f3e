//! What should be known before any figure is read: a sentence that begins like this stands at the
//! top.

/// How a warning begins.
pub const WARNING: &str = "WARNING: ";

/// The warnings among sentences, then the others.
pub fn split(sentences: &[String]) -> (Vec<&String>, Vec<&String>) {
    sentences.iter().partition(|sentence| sentence.starts_with(WARNING))
}
