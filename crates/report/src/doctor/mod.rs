//! Sources of noise on this machine.

pub(crate) mod json;
pub(crate) mod page;
pub(crate) mod text;
