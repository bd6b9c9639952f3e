//! Why a task cannot be simulated after all.

use std::path::PathBuf;

/// What refused it.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The run.
    #[error(transparent)]
    Run(#[from] crate::hardware::SetupError),
    /// The workload.
    #[error(transparent)]
    Workload(#[from] ringfence_workloads::SetupError),
    /// A recorded program that was not passed in, or that does nothing.
    #[error("the recorded program {} was not read", .0.display())]
    NotRead(PathBuf),
}
