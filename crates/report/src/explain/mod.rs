//! How durable a store to a path can become.

pub(crate) mod brief;
pub(crate) mod json;
pub(crate) mod text;
