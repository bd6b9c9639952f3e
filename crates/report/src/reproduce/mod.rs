//! Published figures and what was measured or simulated instead.

pub(crate) mod brief;
pub(crate) mod json;
pub(crate) mod page;
pub(crate) mod simulated;
pub(crate) mod text;
