//! Tasks in pairs.

pub(crate) mod json;
pub(crate) mod page;
pub(crate) mod text;
