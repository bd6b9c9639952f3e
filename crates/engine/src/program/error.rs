//! Why a program cannot be measured.

/// Why a program cannot be measured; each one sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProgramError {
    /// It cannot be started, or not be counted as asked: the request is at fault.
    #[error("{0}")]
    Unusable(String),
    /// It failed, at its start or later, or does not react to requests.
    #[error("{0}")]
    Failed(String),
}
