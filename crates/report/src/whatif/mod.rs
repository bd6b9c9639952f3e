//! A described machine, and the same with changes.

pub(crate) mod text;
