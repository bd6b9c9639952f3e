//! What stands in the code of programs.

pub(crate) mod json;
pub(crate) mod text;
