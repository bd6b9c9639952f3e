//! What goes wrong.

use ringfence_system::attach::Refusal;

/// Why something is not limited, or not watched.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The request cannot be fulfilled, or not on this machine.
    #[error("{0}")]
    Usage(String),
    /// It was tried and failed.
    #[error("{0}")]
    Failed(String),
    /// The target does not exist, or must not be touched.
    #[error("{0}; nothing was changed")]
    Refused(#[from] Refusal),
    /// What resctrl refused.
    #[error(transparent)]
    Resctrl(#[from] ringfence_resctrl::Error),
}

impl Error {
    /// Whether the request is at fault, rather than the machine.
    pub fn is_usage(&self) -> bool {
        match self {
            Error::Usage(_) | Error::Refused(_) => true,
            Error::Failed(_) => false,
            Error::Resctrl(error) => error.is_usage(),
        }
    }
}
