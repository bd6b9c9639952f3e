//! Described machines, and what is concluded without measuring.

mod claims;
mod describe;
mod known_effects;
mod machines;
#[path = "../support/mod.rs"]
mod support;
mod whatif;
