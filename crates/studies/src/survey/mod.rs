//! The survey: what durable writes cost on this machine and whom they disturb, with nothing asked.
//!
//! Probes first, since what the kernel says of caches and cores may not be so; then the experiments
//! of [`experiments`], each a dataset of its own; then [`advice`], which follows from the figures alone.

pub mod advice;
mod advise;
pub mod answer;
pub(crate) mod conclude;
pub mod experiments;
pub mod files;
mod frontiers;
pub mod parts;
mod probes;
mod run;
pub(crate) mod stored;
mod tables;
mod victim;

pub use advice::Advice;
pub use experiments::Depth;
pub use files::Files;
pub use probes::{Probes, Reloads};
pub use run::{Options, planned, run};
pub use tables::{CostRow, NeighbourRow, Neighbours, Survey};
pub use victim::{Level, Outside};

#[cfg(test)]
#[path = "../../tests/inside/survey.rs"]
mod tests;
