//! How a task slows down as it loses cache.

pub(crate) mod page;
pub(crate) mod text;
