//! A core and its threads.
//!
//! Each thread does three things, each at a time of its own, earliest first: its *front end* takes
//! operations from the program; the *head* of its store buffer lets stores, flushes and fences out
//! in order; and between them reads for ownership are *fetched ahead* for stores that are not at
//! the head yet.
//!
//! A core runs ahead of the others by less than the time from a core to memory. Nothing that others
//! do could reach it before, except by way of caches that it shares with them, whose content is as
//! exact as that.

mod buffers;
mod core;
mod flushes;
mod front;
mod head;
mod thread;

pub use core::Core;
pub use thread::{Costs, Limits, Thread};
