//! Durable commits to files.

pub(crate) mod method;
pub(crate) mod page;
pub(crate) mod short;
pub(crate) mod stalls;
pub(crate) mod text;
