//! Regions kept in a cache.

pub(crate) mod answer;
pub(crate) mod json;
pub(crate) mod text;
