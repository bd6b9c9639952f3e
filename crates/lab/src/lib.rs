//! Experiments: plan, workloads, engine, estimates, dataset.

pub mod workload;
