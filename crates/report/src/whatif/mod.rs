//! A described machine, and the same with changes.

pub(crate) mod json;
pub(crate) mod text;
