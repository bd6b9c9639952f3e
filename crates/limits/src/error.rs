/// Why something cannot be arranged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// What was asked for cannot be had on this machine as it is: a usage error.
    #[error("{0}")]
    Usage(String),
    /// The kernel, or a neighbour, did not have it.
    #[error("{0}")]
    Failed(String),
}
