//! The estimators against simulated machines: does 95 % mean 95 %, and can no input break them?

mod any_input;
mod controls;
mod coverage;
mod latencies;
mod noise;
mod shapes;
mod two_groups;
