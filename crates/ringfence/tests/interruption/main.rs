//! Runs that are interrupted, stopped or killed: what is kept, what is resumed, and that nothing is
//! left behind.

mod partial_runs;
mod resume;
#[path = "../support/mod.rs"]
mod support;
mod survivors;
