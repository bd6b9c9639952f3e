//! Linux resctrl as a library: which tasks may use which ways of a cache and how much memory
//! bandwidth, what each group uses, regions that stay in the cache, and changes that are undone.
//!
//! - [`Resctrl`] is the mounted file system: [`Info`] describes the machine, [`Group`] one group.
//! - [`Schemata`] is a `schemata` file as a value; [`plan`] finds masks that no other group uses.
//! - [`Transaction`] makes changes that are undone: at its end or, if the program is killed at any
//!   moment, by the next one from a journal.
//! - [`pseudo`] creates pseudo-locked regions if the processor can, and reports why it cannot.
//!
//! All access goes through [`kernel::Kernel`]: this machine's, a tree of files instead, or (feature
//! `model`) a model in memory that refuses what the kernel refuses.
//!
//! ```
//! use ringfence_system::root::FsRoot;
//! use ringfence_resctrl::Resctrl;
//!
//! match Resctrl::find(&FsRoot::host()) {
//!     Ok(resctrl) => {
//!         for (name, cache) in &resctrl.info()?.caches {
//!             println!("{name}: {} ways, {} groups", cache.cbm_mask.count(), cache.num_closids);
//!         }
//!         for group in resctrl.groups()? {
//!             println!("{}: {}", group.id(), group.schemata()?);
//!         }
//!     }
//!     Err(why) => println!("{why}"),
//! }
//! # Ok::<(), ringfence_resctrl::Error>(())
//! ```
//!
//! Facts about the interface come from the kernel documentation
//! (`Documentation/arch/x86/resctrl.rst`) and the sources of Linux 6.1
//! (`arch/x86/kernel/cpu/resctrl`).

mod bandwidth;
mod error;
mod fs;
mod group;
mod groups;
mod id;
pub mod info;
pub mod kernel;
mod mode;
pub mod monitor;
mod overview;
pub mod plan;
pub mod pseudo;
mod remedy;
mod schemata;
mod state;
pub mod transaction;

pub use error::{Absent, Error, Refused};
pub use fs::{DEFAULT_MOUNT, MountOptions, Resctrl};
pub use group::{Group, Size};
pub use id::GroupId;
pub use info::Info;
pub use kernel::Thread;
pub use mode::Mode;
pub use overview::{GroupOverview, Overview, Sizes};
pub use schemata::{
    Domain, Line, Mask, ParseMaskError, ParseSchemataError, Resource, Schemata, Setting,
};
pub use state::{GroupState, State};
pub use transaction::{Options, Step, Transaction};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
