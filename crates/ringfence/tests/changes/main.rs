//! Changes to the system, and their way back: `resctrl`, `lock` and `restore`.
//!
//! Apart from other tests: a run reports what it puts back of runs that were killed before, and
//! these here leave something to put back.

mod lock;
mod resctrl;
mod restore;
#[path = "../support/mod.rs"]
mod support;
