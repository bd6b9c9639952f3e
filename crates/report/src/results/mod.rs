//! Stored results.

pub(crate) mod text;
