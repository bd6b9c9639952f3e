//! Cache ways and bandwidth: which group has what.

pub(crate) mod json;
pub(crate) mod text;
pub(crate) mod watch;
