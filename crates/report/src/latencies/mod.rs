//! Latencies and their quantiles.

pub(crate) mod page;
pub(crate) mod quantiles;
pub(crate) mod short;
pub(crate) mod text;
