//! Regions kept in a cache.

pub(crate) mod text;
