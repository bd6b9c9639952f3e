//! What this computer is: topology, features, memory targets, probes and what spoils a measurement.

#[cfg(not(target_arch = "x86_64"))]
compile_error!("Ringfence measures x86-64 flush instructions and supports no other architecture.");

pub mod clock;
pub mod counters;
pub mod cpulist;
pub mod doctor;
pub mod features;
#[cfg(any(test, feature = "fixtures"))]
pub mod fixtures;
pub mod probe;
pub mod root;
pub mod targets;
pub mod topology;
pub mod units;
