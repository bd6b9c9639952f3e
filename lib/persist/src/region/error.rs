//! Why a region could not be had, and what to do about it.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::durability::{Durability, Explanation};

/// Why a region could not be mapped, or synchronised.
#[derive(Debug, thiserror::Error)]
pub enum RegionError {
    /// The request is invalid on every machine.
    #[error("{0}")]
    Request(String),
    /// A path is missing, in use, or of the wrong kind.
    #[error("{path}: {reason}", path = .path.display())]
    Path {
        /// The path as given.
        path: PathBuf,
        /// What is wrong with it and what to do.
        reason: String,
    },
    /// Too little room.
    #[error(
        "{place} has {free} free, {wanted} are needed: ask for a smaller size, or make room",
        free = iec(*.free, u64::div_euclid),
        wanted = iec(*.wanted, u64::div_ceil)
    )]
    NoSpace {
        /// The file system or memory.
        place: String,
        /// Bytes free there.
        free: u64,
        /// Bytes requested.
        wanted: u64,
    },
    /// The region is less durable than requested.
    #[error("{}", less_durable(.found, .asked))]
    LessDurable {
        /// What was found, with the reasons.
        found: Box<Explanation>,
        /// The least durability that was requested.
        asked: Durability,
    },
    /// The file became shorter while it was mapped: touching what lies behind its end is SIGBUS.
    #[error(
        "{path} was shrunk to {now} bytes while {mapped} were mapped: do not touch the region any \
         more, and find out who truncates the file",
        path = .path.display()
    )]
    Shrunk {
        /// The file.
        path: PathBuf,
        /// Its length now, in bytes.
        now: u64,
        /// The length that is mapped, in bytes.
        mapped: u64,
    },
    /// Writing back to the medium failed, now or earlier.
    #[error(transparent)]
    Lost(Arc<RegionError>),
    /// The kernel refused.
    #[error("{what} failed: {source}; {remedy}")]
    Kernel {
        /// The call, with what it was for.
        what: String,
        /// What to do about it.
        remedy: String,
        /// The error number.
        source: io::Error,
    },
}

impl RegionError {
    /// Whether the request could not have worked on this machine as it is: a wrong path, too little
    /// room, no DAX, no huge pages, no such node. The opposite is a medium or a kernel that failed.
    pub fn is_usage(&self) -> bool {
        match self {
            // A path that holds a zero byte gets no errno.
            RegionError::Kernel { source, .. } if source.kind() == io::ErrorKind::InvalidInput => {
                true
            }
            RegionError::Kernel { source, .. } => matches!(
                source.raw_os_error(),
                Some(
                    libc::EOPNOTSUPP
                        | libc::EINVAL
                        | libc::ENODEV
                        | libc::ENXIO
                        | libc::ENOMEM
                        | libc::ENOSPC
                        | libc::EDQUOT
                        | libc::EFBIG
                        | libc::EPERM
                        | libc::EACCES
                        | libc::EROFS
                        | libc::ENOENT
                        | libc::ENOTDIR
                        | libc::EISDIR
                        | libc::EEXIST
                        | libc::ELOOP
                        | libc::ENAMETOOLONG
                        | libc::ETXTBSY
                        | libc::EBUSY
                )
            ),
            RegionError::Shrunk { .. } => false,
            _ => true,
        }
    }

    pub(super) fn kernel(what: impl Into<String>, source: io::Error, remedy: &str) -> Self {
        RegionError::Kernel { what: what.into(), remedy: remedy.into(), source }
    }
}

fn less_durable(found: &Explanation, asked: &Durability) -> String {
    let kind = found.durability();
    let mut text = format!(
        "{} is less durable than asked for ({kind}, not {asked}), because {}; to accept it, ask \
         for Durability::{kind:?}",
        found.subject(),
        found.reasons()[0],
    );
    if let Some(remedy) = found.remedies().last() {
        text += &format!("; for more, {remedy}");
    }
    text
}

// As people write sizes: 512KiB, 22.6GiB. `divide` rounds tenths, so that what is free never looks
// like enough.
fn iec(bytes: u64, divide: fn(u64, u64) -> u64) -> String {
    let units = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let Some((unit, shift)) = units.into_iter().find(|(_, shift)| bytes >= 1 << shift) else {
        return format!("{bytes}B");
    };
    let one = 1u64 << shift;
    if bytes.is_multiple_of(one) {
        return format!("{}{unit}", bytes / one);
    }
    let tenths = divide(bytes % one * 10, one);
    format!("{}.{}{unit}", bytes / one + tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_told_in_iec_units_and_too_little_looks_like_it() {
        let told = |free: u64, wanted: u64| {
            RegionError::NoSpace { place: "memory".into(), free, wanted }.to_string()
        };
        assert!(
            told(24_357_113_856, 1 << 40).starts_with("memory has 22.6GiB free, 1TiB are needed: ")
        );
        assert!(
            told((1 << 30) - 1, (1 << 30) + 1)
                .starts_with("memory has 1023.9MiB free, 1.1GiB are needed")
        );
        assert!(
            told((1 << 20) + 1, (2 << 20) - 1)
                .starts_with("memory has 1.0MiB free, 2.0MiB are needed")
        );
        assert!(told(0, 512).starts_with("memory has 0B free, 512B are needed"));
    }
}
