//! The simulated hardware: caches, buffers, memory, and what a crash leaves.

mod classes;
mod crash;
mod description;
mod fetched_ahead;
mod identity;
mod invariants;
mod memory;
mod planted;
mod shared_channels;
mod support;
