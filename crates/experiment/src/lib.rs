//! What to ask of a machine, and in what order: an [`Experiment`] is what a file says, a
//! [`plan::Plan`] the windows in their order, a [`sample::Sample`] one measured window of one task.
//!
//! All of it are values and functions of values: nothing here reads a clock, a file or the
//! processor. What a machine has comes in as a [`Topology`](ringfence_machine::topology::Topology)
//! and as [`Features`](ringfence_machine::features::Features).

#![forbid(unsafe_code)]

pub mod budget;
pub mod class;
pub mod ended;
mod error;
mod experiment;
pub mod histogram;
pub mod io_priority;
pub mod nearest;
mod one_or_many;
pub mod placement;
pub mod plan;
pub mod quantity;
mod reason;
pub mod sample;
pub mod scale;
pub mod shell;
pub mod start;
pub mod stretch;
pub mod system;
pub mod task;
pub mod units;
pub mod warning;

pub use error::{Error, ErrorKind};
pub use experiment::*;
pub use one_or_many::OneOrMany;
pub use reason::Reason;
