//! What became of a store.

/// What became of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It had reached memory.
    Reached,
    /// It had not.
    Lost,
    /// Either, it makes no difference here.
    Either,
}
