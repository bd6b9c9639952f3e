//! The result of a restoration.

use super::step::Step;

/// The changes that were undone.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Restored {
    /// What it was for.
    pub purpose: String,
    /// The steps that led back.
    pub steps: Vec<Step>,
    /// What another process has changed since, one sentence each: it was left alone.
    pub left: Vec<String>,
    /// What was restored to a place where it may not have been before, one sentence each.
    pub notes: Vec<String>,
    /// Changes that could not be undone and are still in a journal, one sentence each: settings of
    /// an offline CPU or cache, which [`super::recover`] restores once it is online; and invalid
    /// lines of the journal.
    pub waiting: Vec<String>,
}

impl Restored {
    /// Everything other than the steps that a user should know.
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
