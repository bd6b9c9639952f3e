//! From samples to figures with intervals: pure functions, no clock, no machine.

#![forbid(unsafe_code)]

pub mod cheapest;
pub mod disk_writes;
pub mod estimate;
pub mod frontier;
pub mod hosts;
pub mod latency;
pub mod parts;
pub mod quantile;
pub mod results;
pub mod stalls;
pub mod timeline;
pub mod verdicts;
pub mod windows;
