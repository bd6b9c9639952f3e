//! The simulated hardware: caches, buffers, memory, and what a crash leaves.

mod classes;
mod crash;
mod description;
mod identity;
mod invariants;
mod known_effects;
mod memory;
mod prefetch;
mod shared_channels;
mod support;
