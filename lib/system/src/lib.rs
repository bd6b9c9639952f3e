//! Reads, changes and pauses a live Linux system, and always undoes it.
//!
//! - [`root`], [`cpulist`], [`mounts`] and [`text`]: the kernel's files as values. Everything that
//!   reads such a file takes a [`root::FsRoot`], so that a copy of another machine's files can be
//!   read instead.
//! - [`whole`] and [`checksum`]: files that are written whole or not at all.
//! - [`changes`]: a journal of changes to the system, and their rollback.
//! - [`attach`]: finds and pauses running processes.

#![forbid(unsafe_code)]

pub mod attach;
pub mod changes;
pub mod checksum;
pub mod cpulist;
#[cfg(any(test, feature = "fixtures"))]
pub mod fixture;
pub mod mounts;
pub mod overlay;
mod processor;
pub mod root;
pub mod sparse;
pub mod text;
pub mod whole;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
