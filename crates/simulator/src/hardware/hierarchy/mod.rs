//! The caches of all cores as one: where a line is, what it takes to get it, what has to leave for
//! it.
//!
//! A line's newest content is dirty in at most one place: the cache that fetches a dirty line takes
//! over its dirty state. Hence each write-back corresponds to exactly one change from clean to
//! dirty.

mod evict;
mod fetch;
mod flush;
mod in_flight;
mod prefetch;
mod state;
mod streamer;

pub use fetch::{Source, Want};
pub use flush::Departure;
pub use state::{Hierarchy, Place, each};
pub use streamer::Streamer;
