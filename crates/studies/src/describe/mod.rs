//! Machine files from measurements.
//!
//! - [`host`](mod@host) writes the file of a machine from what was probed and surveyed of it, each
//!   value with its source.
//! - [`cells`] are the figures of a measured experiment, and what the simulator makes of each on a
//!   described machine.
//! - [`fit`](mod@fit) changes named values such that some of these cells come out, and says how far
//!   the others are off.
//! - [`sensitivity`] says which cell moves by how much when a value does.
//!
//! Everything is a function of values, and repeats exactly; nothing reads a file or a clock.

#![forbid(unsafe_code)]

pub mod cells;
mod edit;
pub mod fit;
pub mod host;
pub mod sensitivity;

pub use cells::{Cell, Measured, Outcome, Predicted, predict};
pub use fit::{Fit, fit};
pub use host::{Written, host};
