//! Messages between the examination and its workers.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use super::reads::Read;

/// Settings of a worker.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Setup {
    /// A folder of its own, on which it mounts what is private to it.
    pub folder: PathBuf,
    /// The files of the images.
    pub files: Vec<ImageFile>,
    /// Where the stored words lie: the file's number, and the offset in it.
    pub words: Vec<(usize, u64)>,
    /// Functions of commands whose reads a checksum covers.
    pub checksum: Vec<String>,
    /// The folder in which commands run.
    pub directory: PathBuf,
    /// Bytes that a run may write to files, images included.
    pub disk: u64,
    /// Bytes of memory that a process of a run may have, besides mapped files.
    pub memory: u64,
    /// The CPU that it stays on, counted among those that it may use: it and its command take
    /// turns, and waking a task on another CPU is slow.
    pub cpu: usize,
}

/// A file of the images.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageFile {
    /// Where commands find it.
    pub path: PathBuf,
    /// What it held before the program stored to it.
    pub initial: PathBuf,
}

/// A run to do. The changed words precede it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Order {
    /// The number of changed words that follow, each as its number and its content, 8 bytes each.
    pub changed: usize,
    /// The size of each file.
    pub sizes: Vec<u64>,
    /// The command, for the shell.
    pub command: String,
    /// How long it may take.
    pub time: Duration,
    /// What it is given.
    pub given: Option<Given>,
    /// A folder in its view that is copied out after the run, and where to. What such a command
    /// reads is not followed.
    pub keep: Option<(PathBuf, PathBuf)>,
    /// Words, by their places, of which it matters whether and in which order the command reads
    /// them.
    pub open: Vec<u32>,
}

/// What a command is given besides the files.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Given {
    /// Its standard input.
    pub input: String,
    /// What is in the file whose path is in the variable `RECOVERED`.
    pub recovered: String,
}

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ran {
    /// How it ended.
    pub status: Status,
    /// What it printed to its standard output.
    pub output: Vec<u8>,
    /// The last of what it printed to its standard error.
    pub errors: Vec<u8>,
    /// How long it took.
    pub took: Duration,
    /// What it has read.
    pub read: Read,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "CrashStatus"))]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It exited with this code.
    Exited(i32),
    /// A signal of this number ended it.
    Signal(i32),
    /// It was ended, because it took too long.
    TooLong,
    /// It was ended, because it had started too many processes.
    TooMany,
    /// It was ended, because it printed too much.
    TooMuch,
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Exited(code) => write!(f, "exit code {code}"),
            Self::Signal(number) => match signal_name(*number) {
                Some(name) => f.write_str(name),
                None => write!(f, "signal {number}"),
            },
            Self::TooLong => f.write_str("no end"),
            Self::TooMany => f.write_str("too many processes"),
            Self::TooMuch => f.write_str("endless output"),
        }
    }
}

fn signal_name(number: i32) -> Option<&'static str> {
    Some(match number {
        libc::SIGILL => "SIGILL",
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        libc::SIGFPE => "SIGFPE",
        libc::SIGKILL => "SIGKILL",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGTERM => "SIGTERM",
        libc::SIGXFSZ => "SIGXFSZ",
        _ => return None,
    })
}
