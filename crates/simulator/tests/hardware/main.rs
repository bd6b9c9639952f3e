//! The simulated hardware: caches, buffers, memory, and what a crash leaves.

#![expect(clippy::disallowed_methods, reason = "tests read what they expect, and write it anew")]

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
