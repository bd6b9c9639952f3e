//! Durable commits to files.

pub(crate) mod page;
pub(crate) mod stalls;
pub(crate) mod text;
