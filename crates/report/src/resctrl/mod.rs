//! Cache ways and bandwidth: which group has what.

pub(crate) mod text;
pub(crate) mod watch;
