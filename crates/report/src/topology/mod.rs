//! Packages, cores, caches and nodes.

pub(crate) mod caches;
pub(crate) mod cpus;
pub(crate) mod json;
pub(crate) mod node;
pub(crate) mod text;
