//! The table of a fleet: what each attempt has to say, in rows, and all of it as one.

mod contents;
mod copy;
mod figures;
mod gather;
mod read;
pub(crate) mod rows;

pub use contents::{Gathered, LeftOut, is_current};
pub use gather::gather;
pub use read::{Figure, OnHost, Read, read};
