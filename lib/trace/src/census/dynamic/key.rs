//! The code that did something.

/// A site, and its callers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key {
    pub site: u32,
    pub callers: u32,
}
