/// Why something cannot be arranged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A usage error: this machine in its current state cannot fulfil the request.
    #[error("{0}")]
    Usage(String),
    /// The kernel, or a neighbour, did not have it.
    #[error("{0}")]
    Failed(String),
}
