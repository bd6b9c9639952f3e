//! The table of a fleet: what each attempt has to say, in rows, and all of it as one.

mod copied;
mod figures;
mod gather;
mod gathered;
mod read;
pub(crate) mod rows;

pub use gather::gather;
pub use gathered::{Gathered, LeftOut, is_current};
pub use read::{Figure, OnHost, Read, read};
