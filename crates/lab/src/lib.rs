//! Experiments: plan, workloads, engines, estimates, dataset.
//!
//! An [`experiment::Experiment`] says what to ask, a [`plan::Plan`] in what order, an
//! [`engine::Engine`] measures window by window, a [`sample::Sample`] is one window of one task, a
//! [`dataset`] keeps them, and [`estimate`] turns samples into figures with intervals.

pub mod compare;
pub mod dataset;
pub mod engine;
pub mod estimate;
pub mod experiment;
#[cfg(any(test, feature = "fixtures"))]
pub mod fixtures;
pub mod frontier;
pub mod latency;
pub mod lock;
pub mod measure;
pub mod pair;
pub mod placement;
pub mod plan;
pub mod prove;
pub mod reproduce;
pub mod results;
pub mod runner;
pub mod sample;
pub mod sensitivity;
pub mod shell;
pub mod start;
pub mod survey;
pub mod task;
pub mod text_file;
pub mod timeline;
pub mod tune;
pub mod units;
pub mod workload;
