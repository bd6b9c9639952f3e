//! A warning to read before any figure: a sentence that starts like this is printed first.

/// How a warning begins.
pub const WARNING: &str = "WARNING: ";

/// The warnings among sentences, then the others.
pub fn split(sentences: &[String]) -> (Vec<&String>, Vec<&String>) {
    sentences.iter().partition(|sentence| sentence.starts_with(WARNING))
}
