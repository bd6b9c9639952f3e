//! What reading on gave.

use crate::answer::Outcome;

/// What was read.
#[derive(Debug, PartialEq, Eq)]
pub struct Fed {
    /// How many of the bytes belong to this answer.
    pub used: usize,
    /// What became of it, if it ended there.
    pub done: Option<Outcome>,
}
