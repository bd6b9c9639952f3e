//! What runs a plan: an engine starts lives, pauses and resumes tasks, and measures windows.
//!
//! [`host::HostEngine`] does it on this machine, with one process per task. Everything above it, the
//! runner included, sees only [`Engine`], so that scheduling is tested without time.

pub(crate) mod cgroup;
mod crew;
pub mod fenced;
pub mod guardian;
pub mod host;
pub(crate) mod process;
mod settle;
pub(crate) mod shm;
pub mod worker;

use ringfence_machine::cpulist::CpuId;

use crate::latency::Histogram;
use crate::plan::Active;

/// What one task did in one window.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Measured {
    /// The role's index.
    pub role: usize,
    /// The instance, from 0.
    pub instance: u32,
    /// The CPU it is pinned to.
    pub cpu: u32,
    /// Start of the window, ns since the engine's start.
    pub start_ns: u64,
    /// Length of the window, ns.
    pub length_ns: u64,
    /// The part of it that counts as work, ns.
    pub busy_ns: u64,
    /// Units of work done.
    pub units: u64,
    /// Hardware counters, where there are any.
    pub counts: Option<Counts>,
    /// Latencies of single units, where the task counts them and there were any: as many as `units`.
    pub latencies: Option<Histogram>,
}

/// Hardware counters of one window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Core cycles.
    pub cycles: Option<u64>,
    /// Instructions retired.
    pub instructions: Option<u64>,
    /// Last-level cache misses.
    pub llc_misses: Option<u64>,
}

/// Why an engine cannot go on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// What was asked for cannot be had on this machine as it is: a usage error.
    #[error("{0}")]
    Usage(String),
    /// Something ended or failed while it was measured.
    #[error("{0}")]
    Failed(String),
    /// Somebody asked for an end while something long was under way.
    #[error("interrupted")]
    Interrupted,
}

/// Runs tasks and measures them.
pub trait Engine {
    /// Starts the metric's role anew, and everybody else if they do not run yet; all are paused.
    ///
    /// # Errors
    /// Where a task cannot be started.
    fn begin_life(&mut self, life: u32) -> Result<(), EngineError>;

    /// Pauses everybody and measures the round trip between the first of these CPUs and the others, in
    /// ns; the largest where there are several. `None` where there is but one CPU or no probe is wanted.
    ///
    /// # Errors
    /// Where a task does not pause.
    fn probe(&mut self, cpus: &[CpuId]) -> Result<Option<f64>, EngineError>;

    /// Arranges what a case wants besides its tasks, before its window.
    ///
    /// # Errors
    /// Where that is refused.
    fn arrange(&mut self, case: usize) -> Result<(), EngineError> {
        let _ = case;
        Ok(())
    }

    /// Runs exactly the tasks given, lets them settle, and measures one window.
    ///
    /// # Errors
    /// Where a task ends or does not run.
    fn window(&mut self, active: &[Active]) -> Result<Vec<Measured>, EngineError>;
}
