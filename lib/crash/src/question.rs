//! The settings of an examination.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use regex_lite::Regex;
use ringfence_crashcheck::WrittenBack;

/// How a recorded program's crashes are examined.
#[derive(Debug, Clone)]
pub struct Question {
    /// How its stores become durable.
    pub written_back: WrittenBack,
    /// The command that recovers, for the shell: it ends as after a clean stop, and prints what was
    /// kept.
    pub recover: String,
    /// A command, for the shell, that says by its exit code 0 that recovery printed what it has to.
    /// It gets the acknowledged lines as its standard input, and what recovery printed in a file,
    /// whose path is in the variable `RECOVERED`. Without it, recovery has to print what it prints
    /// after a kill.
    pub expect: Option<String>,
    /// Exit codes of recovery that are right besides those seen without a crash.
    pub ok_status: Vec<i32>,
    /// Lines of its output that do not count.
    pub ignore: Vec<Regex>,
    /// Functions of recovery that compute or check a checksum: of the words that only they read,
    /// few contents are examined.
    pub checksum: Vec<String>,
    /// States on which recovery is run at most.
    pub states: u64,
    /// How long that may take.
    pub time: Duration,
    /// The folder in which recovery runs.
    pub directory: PathBuf,
    /// Workers.
    pub workers: usize,
    /// Bytes of memory that a process of recovery may have.
    pub memory: u64,
    /// The program that runs as a worker.
    pub program: PathBuf,
    /// Ends the examination once it is set.
    pub stop: Arc<AtomicBool>,
    /// A file that keeps the runs of recovery, for an examination that goes on later.
    pub journal: Option<PathBuf>,
    /// A folder for what is private to the workers.
    pub folder: PathBuf,
}
