//! Changes to the system, and how they are restored: `resctrl`, `lock` and `restore`.
//!
//! Apart from other tests: a run reports what it restores of runs that were killed before, and
//! these tests leave something to restore.

mod lock;
mod resctrl;
mod restore;
#[path = "../support/mod.rs"]
mod support;
