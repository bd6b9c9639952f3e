//! What recorded programs executed.

pub(crate) mod costs;
pub(crate) mod page;
pub(crate) mod text;
