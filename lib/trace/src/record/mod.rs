//! Recording: what a program does to the files that it maps, as it runs.
//!
//! The mapping of a recorded file gets no rights to store (and none at all where loads are
//! recorded, too). An access then fails, a handler of ours finds out which instruction it was, and
//! executes a copy of it, whose address is that of a second mapping of the same file: its alias.
//! Fences, locked instructions and flushes need no such rights. They are found in the code of the
//! program and its libraries, and replaced by jumps or breakpoints before they run.
//!
//! The handler and all that goes with it is a small executable of its own
//! (`ringfence-trace-runtime`), which is mapped into the process before its first instruction. This
//! part decodes and assembles for it, keeps the events, and knows files.

mod analysis;
mod callers;
mod compat;
mod copy;
mod files;
mod hot;
mod medium;
mod names;
mod patching;
mod process;
mod questions;
mod reasons;
mod rerun;
mod rights;
mod service;
mod shared_memory;
mod site;
mod space;
mod stub;
mod terminal;
mod unwind;
mod watcher;
mod write_buffer;

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

pub use medium::of_new_file;
pub use process::Ran;
pub use rerun::Again;
pub use rights::{may_mount, with_own_users};
pub use service::record;

use crate::events::Ended;
use crate::recording::RecordingError;

/// The command and the files to record.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// Files, or folders with all their files. They need not exist yet.
    pub files: Vec<PathBuf>,
    /// The folder for copies of the files, which the program uses instead; with `None` it uses the
    /// files themselves. Missing files are created in either case.
    pub copies: Option<PathBuf>,
    /// Whether files that are not there are made in memory, in a layer over their folders, with all
    /// else that is written there. It goes with the program. Needs copies.
    pub made_in_memory: bool,
    /// Whether loads are recorded, too, which makes each of them as slow as a store.
    pub loads: bool,
    /// Whether what the program prints is recorded, for which its standard output is a
    /// pseudo-terminal: line by line, as the C library then prints it. Nothing else gets to see it.
    pub output: bool,
}

/// What a recording came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// How the program ended.
    pub ended: Ended,
    /// Events that were recorded.
    pub events: u64,
    /// What came out of the program's standard output, also from programs that could not be
    /// recorded; nothing where [`Options::output`] is false.
    pub printed: Vec<u8>,
    /// Notes for a reader of the recording, one sentence each.
    pub notes: Vec<String>,
}

/// Why nothing, or no more, was recorded.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The program could not be started.
    #[error("{command} could not be started: {source}")]
    Start {
        /// The program.
        command: String,
        /// Why.
        source: io::Error,
    },
    /// A copy could not be made.
    #[error("the files could not be copied to {}: {source}", folder.display())]
    Copy {
        /// Where to.
        folder: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A copy could not be mounted over a file.
    #[error(
        "copies cannot be mounted over the files: {source}; copy them yourself, and record in place"
    )]
    Mount {
        /// Why.
        source: io::Error,
    },
    /// A process could not be prepared or looked into.
    #[error("{what}: {source}")]
    Process {
        /// What was tried.
        what: String,
        /// Why it failed.
        source: io::Error,
    },
    /// The events could not be kept.
    #[error(transparent)]
    Recording(#[from] RecordingError),
}

impl RecordError {
    fn of_start(command: String, copies: &copy::Copies, source: io::Error) -> Self {
        match source.raw_os_error() {
            // Programs that may not be executed are refused by another number.
            Some(libc::EPERM) if !copies.is_empty() => Self::Mount { source },
            _ => Self::Start { command, source },
        }
    }
}
