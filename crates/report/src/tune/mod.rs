//! The cheapest durable write.

pub(crate) mod files;
pub(crate) mod json;
pub(crate) mod short;
pub(crate) mod text;
pub(crate) mod words;
