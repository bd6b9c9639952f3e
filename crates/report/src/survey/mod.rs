//! A survey of one machine.

pub(crate) mod advice;
pub(crate) mod costs;
pub(crate) mod files;
pub(crate) mod headline;
pub(crate) mod json;
pub(crate) mod machine;
pub(crate) mod neighbours;
pub(crate) mod page;
pub(crate) mod text;
