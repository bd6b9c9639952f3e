//! Published claims and what became of them.

pub(crate) mod json;
mod markdown;
mod note;
mod page;
mod text;

pub use markdown::markdown;
pub use note::{Note, note, notes, notes_markdown};
pub use page::page;
pub use text::text;
