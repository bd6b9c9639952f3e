//! Why a task cannot be simulated after all.

/// What refused it.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The run.
    #[error(transparent)]
    Run(#[from] ringfence_sim::SetupError),
    /// The workload.
    #[error(transparent)]
    Workload(#[from] ringfence_workloads::SetupError),
}
