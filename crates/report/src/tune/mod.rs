//! The cheapest durable write.

pub(crate) mod files;
pub(crate) mod text;
