//! The table of a fleet: what each attempt has to say, in rows, and all of it as one.

mod columns;
mod gather;
mod read;
pub(crate) mod rows;
mod samples;

pub use gather::{Gathered, gather, is_current};
pub use read::{Figure, OnHost, Read, read};
