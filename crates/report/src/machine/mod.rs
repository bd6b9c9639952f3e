//! Described machines.

pub(crate) mod text;
