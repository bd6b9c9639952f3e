//! The kernel's files as values: the root under which they lie, its lists of CPUs, what is mounted; texts from
//! outside made fit for a terminal; and files of one's own that are written whole, with
//! their checksums.
//!
//! What several crates of this project read `/sys` and `/proc` and write files with, and nothing else. Everything that
//! reads such a file takes a [`root::FsRoot`], so that a copy of another machine's files can stand in.

pub mod checksum;
pub mod cpulist;
#[cfg(any(test, feature = "fixtures"))]
pub mod fixture;
pub mod mounts;
mod processor;
pub mod root;
pub mod text;
pub mod whole;
