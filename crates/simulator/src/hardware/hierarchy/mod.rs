//! The caches of all cores as one: where a line is, what it takes to get it, what has to leave for
//! it.
//!
//! A line's newest content is dirty in at most one place: whoever fetches a dirty line takes the
//! dirt along. Hence each write-back answers for exactly one turn from clean to dirty.

mod evict;
mod fetch;
mod flush;
mod prefetch;
mod state;
mod streamer;
mod under_way;

pub use fetch::{Source, Want};
pub use flush::Departure;
pub use state::{Hierarchy, Place, each};
pub use streamer::Streamer;
