//! A task compared with itself.

pub(crate) mod page;
pub(crate) mod text;
