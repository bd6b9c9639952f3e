//! Stores that outlive the program: [`Region`]s of memory that know how durable they are,
//! [`Stores`] whose state is in their type, failure-atomic [records](record), and a [`Ring`] that
//! needs one fence for each durable entry.
//!
//! ```
//! use ringfence_persist::{Durability, Region, Ring};
//!
//! // A ring in memory of this process; Ring::create makes one in a file or device.
//! let ring = Ring::create_in(Region::anonymous(1 << 20, Durability::Volatile)?)?;
//! let mut producer = ring.producer()?;
//! producer.push(b"as durable as the region when this returns")?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The lower layers are the [`Memory`] trait, on which all of this is built, so that it runs on
//! bare instructions and under a checker; [`isa`], the only module with inline assembly; and the
//! [`policy`] file, which carries the measurements of a machine to the programs that store there.

pub mod checksum;
mod faults;
pub mod isa;
mod kernel;
mod mapping;
pub mod memory;
pub mod methods;
pub mod policy;
pub mod record;
pub mod region;
pub mod ring;
pub mod stores;

pub use isa::{Flush, LINE, Width};
pub use mapping::Mapped;
pub use memory::Memory;
pub use methods::Methods;
pub use region::{
    Domain, Durability, Explanation, Medium, Pages, Region, RegionError, Request, room_in_memory,
};
pub use ring::Ring;
pub use stores::{Durable, Lost, Stores};

// The README's examples run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
