//! Tasks in pairs.

pub(crate) mod page;
pub(crate) mod text;
