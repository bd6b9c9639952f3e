//! What was put back, and what is said of it.

use super::step::Step;

/// What was put back.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Restored {
    /// What it was for.
    pub purpose: String,
    /// The steps that led back.
    pub steps: Vec<Step>,
    /// What another process has changed since, one sentence each: it was left alone.
    pub left: Vec<String>,
    /// What was put where it may not have been before, one sentence each.
    pub notes: Vec<String>,
    /// What could not be put back and is still in a journal, one sentence each: what belongs to a
    /// CPU or cache that is offline, which [`super::recover`] puts back once it is online; and
    /// lines of the journal that make no sense.
    pub waiting: Vec<String>,
}

impl Restored {
    /// Everything that a user should know besides the steps.
    pub fn said(&self) -> impl Iterator<Item = &String> {
        self.left.iter().chain(&self.notes).chain(&self.waiting)
    }

    pub(super) fn both(first: Option<Self>, second: Option<Self>) -> Option<Self> {
        let (Some(mut first), Some(second)) = (first.clone(), second.clone()) else {
            return first.or(second);
        };
        first.steps.extend(second.steps);
        first.left.extend(second.left);
        first.notes.extend(second.notes);
        first.waiting.extend(second.waiting);
        Some(first)
    }
}
