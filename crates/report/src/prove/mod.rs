//! Proofs: a budget, levers, a confirmation.

pub(crate) mod budget;
pub(crate) mod checks;
pub(crate) mod conclusion;
pub(crate) mod details;
pub(crate) mod json;
pub(crate) mod page;
pub(crate) mod precision;
pub(crate) mod settings;
mod settles;
mod short;
pub(crate) mod text;
