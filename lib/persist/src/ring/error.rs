//! Why a ring says no.

use std::io;

use super::version::VERSION;
use crate::methods::MethodsError;
use crate::region::RegionError;
use crate::stores::Lost;

/// One of the two sides of a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The side that pushes.
    Producer,
    /// The side that reads and pops.
    Consumer,
}

impl std::fmt::Display for Role {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Role::Producer => "producer",
            Role::Consumer => "consumer",
        })
    }
}

/// What a ring cannot do, and why.
#[derive(Debug, thiserror::Error)]
pub enum RingError {
    /// There is no room now: the consumer's durable cursor is too far behind.
    #[error("the ring is full until the consumer pops")]
    Full,
    /// The payload would not fit into the empty ring.
    #[error("a payload of {len} bytes does not fit: this ring holds at most {max} in one entry")]
    TooLong {
        /// Bytes requested.
        len: usize,
        /// The longest payload, in bytes.
        max: usize,
    },
    /// There is one already.
    #[error("the ring has a {0} already, in this process or another (/proc/locks shows which)")]
    Taken(Role),
    /// A ring would be made where one is in use.
    #[error("another process has the ring in this file open: it is not overwritten")]
    InUse,
    /// A capacity or grain that cannot be.
    #[error("{0}")]
    Shape(String),
    /// Making the ring was interrupted.
    #[error(
        "the file is empty: making the ring in it was interrupted; remove it and make it again"
    )]
    Unfinished,
    /// It is something else.
    #[error("this is not a ring: {0}")]
    Foreign(String),
    /// It was written by another version.
    #[error("the ring has format {0}, and this library reads {version}", version = VERSION)]
    Version(u32),
    /// It is a ring, but no crash leaves it so.
    #[error("the ring is damaged, which no crash explains: {0}")]
    Damaged(String),
    /// The device holds a ring already.
    #[error("there is a ring already: open it, or make a new one over it with Ring::create_in")]
    Exists,
    /// The medium failed.
    #[error(transparent)]
    Lost(#[from] Lost),
    /// Its memory cannot be had.
    #[error(transparent)]
    Region(#[from] RegionError),
    /// The requested instructions are not available.
    #[error(transparent)]
    Methods(#[from] MethodsError),
    /// The file that keeps others out cannot be locked.
    #[error("locking the ring's file: {0}; the file system may have no locks (fcntl F_OFD_SETLK)")]
    Lock(#[source] io::Error),
    /// No random bytes for the salt.
    #[error("drawing the ring's salt (getrandom): {0}")]
    Random(#[source] io::Error),
}

impl From<super::index::Impossible> for RingError {
    fn from(found: super::index::Impossible) -> Self {
        let super::index::Impossible { own, other } = found;
        Self::Damaged(format!("one side is at {own}, and the other says that it is at {other}"))
    }
}
