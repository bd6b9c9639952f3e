//! Programs whose speed depends on the caches, run as victims and as aggressors.

pub mod mcf;
