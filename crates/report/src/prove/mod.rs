//! Proofs: a budget, levers, a confirmation.

pub(crate) mod budget;
pub(crate) mod checks;
pub(crate) mod json;
pub(crate) mod page;
pub(crate) mod settings;
pub(crate) mod text;
