//! `fleet`: tasks of many hosts, on this one.

mod damage;
mod retry;
mod slurm;
#[path = "../support/mod.rs"]
mod support;
mod tables;
mod tasks;
