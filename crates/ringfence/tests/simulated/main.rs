//! Described machines, and what is concluded without measuring.

mod claims;
mod describe;
mod machines;
mod planted;
#[path = "../support/mod.rs"]
mod support;
mod whatif;
