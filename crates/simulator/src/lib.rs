//! Described machines: the files that describe them, and the engine that runs plans on them.
//!
//! A machine file becomes a [`Description`], which becomes a [`ringfence_machine::Machine`] as if
//! it had been examined ([`Description::machine`]); [`plan`] says what of an experiment can be
//! simulated, and [`SimulatedEngine`] does it, behind the same trait as the engine of the machine
//! that one has. Nothing of it is a measurement: samples and machine say that they are simulated.

#![forbid(unsafe_code)]

mod actor;
pub mod catalogue;
mod engine;
mod feasibility;
mod file;
pub mod hardware;
mod inspection;
mod isolation;
mod noise;
mod parallel_trials;
mod probes;
mod recordings;
mod spans;
mod tasks;
mod trial;

pub use engine::SimulatedEngine;
pub use feasibility::{plan, plan_with};
pub use file::{Change, ChangeError, Description, MachineFileError, Processor, Value, Vendor};
pub use noise::Noise;
pub use parallel_trials::TrialsAtOnce;
pub use recordings::{Bytes, Did, Recorded, Recordings};
pub use tasks::SetupError;
