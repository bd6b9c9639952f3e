//! Why a study has no result.

use ringfence_dataset::DatasetError;
use ringfence_engine::EngineError;
use ringfence_experiment::ExperimentError;

/// Why a study has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StudyError {
    /// A usage error: the request is invalid, or this machine in its current state cannot fulfil
    /// it.
    #[error("{0}")]
    Usage(String),
    /// A failure without a usable measurement.
    #[error("{0}")]
    Failed(String),
    /// A limit that protects the system was reached before anything was measured.
    #[error("{0}")]
    Limit(String),
    /// Interrupted before anything was measured.
    #[error("interrupted before anything was measured")]
    Interrupted,
    /// The time was over before anything was measured.
    #[error("the time ran out before a window ended")]
    OutOfTime,
}

impl StudyError {
    /// The same, saying in which stage it was.
    pub(crate) fn within(self, stage: &str) -> Self {
        match self {
            Self::Usage(why) => Self::Usage(format!("{stage}: {why}")),
            Self::Failed(why) => Self::Failed(format!("{stage}: {why}")),
            Self::Limit(why) => Self::Limit(format!("{stage}: {why}")),
            other => other,
        }
    }
}

impl From<EngineError> for StudyError {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Usage(why) => Self::Usage(why),
            EngineError::Failed(why) => Self::Failed(why),
            EngineError::Interrupted => Self::Interrupted,
            EngineError::OutOfTime => Self::OutOfTime,
            error @ EngineError::Limit(_) => Self::Limit(error.to_string()),
        }
    }
}

impl From<DatasetError> for StudyError {
    fn from(error: DatasetError) -> Self {
        if error.is_usage() {
            Self::Usage(error.to_string())
        } else {
            Self::Failed(error.to_string())
        }
    }
}

impl From<ExperimentError> for StudyError {
    fn from(error: ExperimentError) -> Self {
        Self::Usage(error.to_string())
    }
}

impl From<ringfence_resctrl::Error> for StudyError {
    fn from(error: ringfence_resctrl::Error) -> Self {
        if error.is_usage() {
            Self::Usage(error.to_string())
        } else {
            Self::Failed(error.to_string())
        }
    }
}
