//! Described machines.

pub(crate) mod json;
pub(crate) mod text;
