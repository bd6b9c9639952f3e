//! How a verb fails, and with which exit code.

use std::fmt;
use std::process::ExitCode;

use ringfence_lab::dataset::DatasetError;
use ringfence_lab::engine::EngineError;
use ringfence_lab::experiment::ExperimentError;

/// Why a verb did not do what was asked.
#[derive(Debug)]
pub enum Failure {
    /// It was asked for something that makes no sense or is not to be had here: exit code 2.
    Usage(String),
    /// What was to be proved was not, which has been said: exit code 3.
    Missed,
    /// It failed, or was interrupted: exit code 1.
    Failed(String),
}

impl Failure {
    /// The exit code.
    pub fn code(&self) -> ExitCode {
        match self {
            Failure::Failed(_) => ExitCode::from(1),
            Failure::Usage(_) => ExitCode::from(2),
            Failure::Missed => ExitCode::from(3),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Usage(text) | Failure::Failed(text) => f.write_str(text),
            Failure::Missed => f.write_str("the budget is not shown to be met"),
        }
    }
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Usage(text) => Failure::Usage(text),
            EngineError::Failed(text) => Failure::Failed(text),
            EngineError::Interrupted => Failure::Failed(error.to_string()),
        }
    }
}

impl From<ExperimentError> for Failure {
    fn from(error: ExperimentError) -> Self {
        Failure::Usage(error.0)
    }
}

impl From<DatasetError> for Failure {
    fn from(error: DatasetError) -> Self {
        if error.is_usage() { Failure::Usage(error.to_string()) } else { Failure::Failed(error.to_string()) }
    }
}

impl From<ringfence_resctrl::Error> for Failure {
    fn from(error: ringfence_resctrl::Error) -> Self {
        if error.is_usage() { Failure::Usage(error.to_string()) } else { Failure::Failed(error.to_string()) }
    }
}
