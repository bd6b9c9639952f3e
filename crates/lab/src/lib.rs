//! Experiments: plan, workloads, engine, estimates, dataset.
