//! Crash states of a program.

pub(crate) mod json;
pub(crate) mod page;
pub(crate) mod text;
