//! Whole commands, compared.

mod brief;
pub(crate) mod json;
pub(crate) mod page;
pub mod text;
pub mod words;

pub use brief::versus;
pub use text::{announcement, note, summary};
