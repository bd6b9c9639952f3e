//! What one run can leave behind: the instructions up to a crash, and which of their stores may
//! have reached memory, decided only as far as a program has looked.
//!
//! Ordinary stores fall into groups, within which they reach memory in order, so that a crash
//! leaves a first part of each group: a line is a group, and under eADR all of memory is one. Of
//! each group an interval `lo..=hi` of how many stores reached memory is still possible. A
//! non-temporal store is durable, lost, or undecided, each word for itself. Under Intel's rules a
//! `clflush` ties groups together: whatever store after it reached memory, the stores to its line
//! before it did.

mod key;
mod parts;
#[cfg(test)]
pub(crate) mod scratch;
mod settle;
mod stores;
mod ties;
mod walk;

pub(crate) use key::{mix, then};
pub(crate) use stores::{CrashImage, Outcome};
pub(crate) use walk::Walk;
