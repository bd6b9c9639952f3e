//! Proofs: a budget, levers, a confirmation.

pub(crate) mod page;
pub(crate) mod text;
