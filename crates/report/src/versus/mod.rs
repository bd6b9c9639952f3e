//! Whole commands, compared.

pub mod text;
pub mod words;

pub use text::{announcement, note, summary, versus};
