//! Two datasets of one experiment.

pub(crate) mod json;
pub(crate) mod page;
pub(crate) mod text;
pub(crate) mod words;
