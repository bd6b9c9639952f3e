//! Crash states of a program.

pub(crate) mod json;
mod notes;
pub(crate) mod page;
mod place;
pub(crate) mod text;
