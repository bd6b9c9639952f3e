//! A simulated machine: programs that load, store, flush and fence lines, on cores, caches and
//! memory that a description gives, in whole picoseconds and exactly repeatable.
//!
//! The README says what is modelled, after which publications, and what is left out. Nothing here
//! is measured: what comes out is as good as the description that goes in.

#![forbid(unsafe_code)]

mod bytes;
mod cache;
mod counters;
mod cpu;
mod event;
mod hierarchy;
pub mod machine;
mod memory;
mod pages;
mod program;
mod record;
mod ring;
mod run;
mod time;
mod units;
mod wheel;

pub use counters::{ChannelCounters, CoreCounters};
pub use machine::{InvalidMachine, Machine};
pub use program::{Line, Op, Program, Region};
pub use record::Record;
pub use run::{HardwareThread, Run, Setup, SetupError, Thread};
pub use time::Ps;

// The README's examples run.
#[cfg(doctest)]
#[doc = include_str!("README.md")]
struct Readme;
