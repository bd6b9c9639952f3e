//! How well machine files predict.

mod text;

pub use text::{check, check_markdown, fitted, sensitivity, sensitivity_markdown};
