//! Errors: the operation that failed, the kernel's error, and a remedy.

use std::fmt;
use std::io;
use std::path::PathBuf;

use ringfence_system::changes::error::JournalError;
use ringfence_system::text::printable;

use crate::remedy;

/// An operation that the kernel refused.
#[derive(Debug)]
pub struct Refused {
    /// What was tried, such as `writing 'L3:0=5' to /sys/fs/resctrl/a/schemata`.
    pub tried: String,
    /// The errno.
    pub source: io::Error,
    /// The text of `info/last_cmd_status` about this operation; several lines are joined by `; `.
    pub status: Option<String>,
    /// What to do about it.
    pub remedy: String,
}

impl Refused {
    /// A refusal with the remedy that its status and errno call for.
    pub fn new(tried: impl Into<String>, source: io::Error, status: Option<String>) -> Self {
        let remedy = remedy::of(status.as_deref(), source.raw_os_error());
        Self { tried: tried.into(), source, status, remedy }
    }

    /// The same with this remedy, where the kernel had no words of its own.
    pub(crate) fn unless_said(mut self, remedy: impl FnOnce(i32) -> Option<String>) -> Self {
        if let (None, Some(errno)) = (&self.status, self.errno())
            && let Some(remedy) = remedy(errno)
        {
            self.remedy = remedy;
        }
        self
    }

    /// The errno, if the kernel gave one.
    pub fn errno(&self) -> Option<i32> {
        self.source.raw_os_error()
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", printable(&self.tried), self.source)?;
        if let Some(status) = &self.status {
            write!(f, " (the kernel says: {})", printable(status))?;
        }
        if self.remedy.is_empty() { Ok(()) } else { write!(f, "; {}", self.remedy) }
    }
}

impl std::error::Error for Refused {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

/// Why there is no resctrl to work with.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Absent {
    /// Neither the processor nor, perhaps, the hypervisor shows any of it.
    #[error("this processor, or the hypervisor above it, shows no RDT (Intel) or PQoS (AMD)")]
    NoHardware,
    /// The processor is no x86-64 one.
    #[error("this is {0}, not an x86-64 processor: only those have RDT (Intel) or PQoS (AMD)")]
    OtherProcessor(&'static str),
    /// The file with this information is missing or incomplete, as in a copy of another machine's
    /// files.
    #[error("it is unknown whether there is RDT (Intel) or PQoS (AMD): {0} does not show it")]
    Unknown(&'static str),
    /// The processor shows it, the kernel does not.
    #[error(
        "the processor shows RDT or PQoS but the kernel has no resctrl: use one with \
         CONFIG_X86_CPU_RESCTRL, \
         and no rdt= that switches it off on its command line"
    )]
    NoKernel,
    /// It can be mounted.
    #[error("resctrl is not mounted: mount -t resctrl resctrl /sys/fs/resctrl (as root)")]
    NotMounted,
    /// It is mounted there, and something else over it.
    #[error("something else is mounted over resctrl at {0}: umount {0} (as root) uncovers it")]
    Covered(String),
}

/// Everything that can go wrong.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no resctrl.
    #[error(transparent)]
    Absent(#[from] Absent),
    /// The kernel refused.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// A file of the kernel, or a journal, holds what this library does not understand.
    #[error("{} holds '{}': {}", path.display(), printable(text), printable(why))]
    Content {
        /// The file.
        path: PathBuf,
        /// What it holds, shortened.
        text: String,
        /// What is wrong with it.
        why: String,
    },
    /// The request is invalid or would do harm: nothing was tried.
    #[error("{0}")]
    Usage(String),
    /// The journal or its lock could not be used.
    #[error("{tried}: {source}; {remedy}")]
    Journal {
        /// What was tried.
        tried: String,
        /// The errno.
        source: io::Error,
        /// What to do.
        remedy: String,
    },
    /// The changes of a killed transaction cannot be undone.
    #[error(
        "the changes of '{}', which was killed, cannot be undone: {source}; then 'ringfence \
         resctrl recover' tries again, and 'ringfence resctrl forget' leaves resctrl as it is",
        printable(purpose)
    )]
    Leftover {
        /// What it was for.
        purpose: String,
        /// Why.
        source: Box<Error>,
    },
    /// Another process is changing resctrl.
    #[error("{0}")]
    Busy(String),
    /// The kernel took a setting and shows another.
    #[error(
        "{group}: requested {asked}, in effect: {found}; the hardware may round or refuse it \
         silently"
    )]
    NotInEffect {
        /// The group.
        group: String,
        /// What was written.
        asked: String,
        /// What is read back.
        found: String,
    },
}

impl From<JournalError> for Error {
    fn from(error: JournalError) -> Self {
        match error {
            JournalError::Unusable { tried, source, remedy } => {
                Self::Journal { tried, source, remedy }
            }
            JournalError::Content { path, text, why } => Self::Content { path, text, why },
        }
    }
}

impl Error {
    /// The errno, if the kernel gave one.
    pub fn errno(&self) -> Option<i32> {
        match self {
            Error::Refused(refused) => refused.errno(),
            Error::Journal { source, .. } => source.raw_os_error(),
            Error::Leftover { source, .. } => source.errno(),
            _ => None,
        }
    }

    /// The text of `last_cmd_status`.
    pub fn status(&self) -> Option<&str> {
        match self {
            Error::Refused(refused) => refused.status.as_deref(),
            Error::Leftover { source, .. } => source.status(),
            _ => None,
        }
    }

    /// Whether the request is at fault, rather than the machine.
    pub fn is_usage(&self) -> bool {
        matches!(self, Error::Usage(_) | Error::Absent(_) | Error::Busy(_))
    }
}
