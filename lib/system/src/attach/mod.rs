//! Running processes, as a victim or aggressor: found, refused where the system depends on them,
//! frozen for a moment, and thawed whatever happens.
//!
//! [`find`] goes from a [`Target`] to processes and control groups, or says why not ([`Refusal`]);
//! [`see`] does so for callers that only look, and refuses nothing for the system's sake. A
//! [`Freezer`] freezes what was found by one of its [`Method`]s, within a [`Budget`], and writes
//! down how to thaw before it does. [`usage`] says what a target has used, and [`Processes`] which
//! processes are the busiest.
//!
//! What is read lies below an [`FsRoot`](crate::root::FsRoot), so that a tree of files can stand in
//! for a machine. Signals are sent on this machine alone.

#![forbid(unsafe_code)]

mod budget;
mod busiest;
mod find;
mod freeze;
mod hierarchy;
mod process;
mod refusal;
mod target;
mod tree;
mod usage;
mod vital;

pub use crate::changes::Thread;
pub use budget::{BadBudget, Budget, LONGEST, NotYet, OVERRUN, SHARE};
pub use busiest::{Busiest, Busy, Processes};
pub use find::{Found, Method, Seen, find, see};
pub use freeze::{FreezeError, Freezer, Frozen, Options, Thawed, Took};
pub use hierarchy::Group;
pub use process::Process;
pub use refusal::Refusal;
pub use target::{ParseTargetError, Target};
pub use usage::{DeviceIo, Source, Usage, io_by_device, usage};
pub use vital::VITAL;

#[cfg(doctest)]
#[doc = include_str!("README.md")]
struct Readme;
