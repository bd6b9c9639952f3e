//! How well machine files predict.

pub(crate) mod json;
mod text;

pub use text::{check, check_markdown, fitted, sensitivity, sensitivity_markdown};
