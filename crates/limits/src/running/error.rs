//! What goes wrong.

use ringfence_system::attach::Refusal;

/// Why something is not limited, or not watched.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// What was asked for cannot be done, or not here.
    #[error("{0}")]
    Usage(String),
    /// It was tried and failed.
    #[error("{0}")]
    Failed(String),
    /// The target does not exist, or is to be left alone.
    #[error("{0}; nothing was changed")]
    Refused(#[from] Refusal),
    /// What resctrl refused.
    #[error(transparent)]
    Resctrl(#[from] ringfence_resctrl::Error),
}

impl Error {
    /// Whether what was asked for is at fault, rather than the machine.
    pub fn is_usage(&self) -> bool {
        match self {
            Error::Usage(_) | Error::Refused(_) => true,
            Error::Failed(_) => false,
            Error::Resctrl(error) => error.is_usage(),
        }
    }
}
