//! What is changed, one thing at a time, as a value.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::changes::entry::Entry;
use crate::changes::error::Error;
use crate::changes::kernel::{Kernel, PROCS};
use crate::changes::thread::Thread;

/// A single change. Paths are as seen below the root.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "do")]
pub enum Step {
    /// A file of the kernel gets another value: a sysctl, or a setting of a control group.
    Set {
        file: PathBuf,
        was: String,
        ours: String,
        /// The values that the restoration writes, in this order, if not only the old one.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        back: Vec<Write>,
    },
    /// One value in a file that has a line for each device gets another one.
    SetEntry { file: PathBuf, entry: Entry, was: String, ours: String },
    /// A control group is made. A process that is found in it later and is not known moves to
    /// `home`.
    Make { group: PathBuf, home: PathBuf },
    /// A process is moved, with all its threads, from one control group into another.
    Move { process: Thread, from: PathBuf, to: PathBuf },
    /// Processes are stopped: these and, if none is stopped yet, all earlier ones except those in
    /// `but`.
    Stop {
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        processes: Vec<Thread>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        but: Vec<Thread>,
    },
}

/// A value for a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Write {
    /// The file, as seen below the root.
    pub file: PathBuf,
    /// What it is given.
    pub value: String,
}

impl Step {
    pub fn take(&self, kernel: &dyn Kernel) -> Result<(), Error> {
        match self {
            Step::Set { file, ours, .. } => set(kernel, file, ours),
            Step::SetEntry { file, entry, ours, .. } => entry.set(kernel, file, ours),
            Step::Make { group, .. } => kernel
                .make_dir(group)
                .map_err(Error::refused(format!("creating the control group {}", group.display()))),
            Step::Move { process, to, .. } => enter(kernel, *process, to),
            // Done by the code that notes it, which knows all of them.
            Step::Stop { .. } => Ok(()),
        }
    }
}

/// Writes a value.
pub fn set(kernel: &dyn Kernel, file: &Path, value: &str) -> Result<(), Error> {
    kernel
        .write(file, value)
        .map_err(Error::refused(format!("writing '{value}' to {}", file.display())))
}

/// Moves a process. One that has ended is not an error.
pub fn enter(kernel: &dyn Kernel, process: Thread, group: &Path) -> Result<(), Error> {
    if kernel.started(process.tid) != Some(process.start) {
        return Ok(());
    }
    match kernel.write(&group.join(PROCS), &process.tid.to_string()) {
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(()),
        other => other.map_err(Error::refused(format!(
            "moving process {} to {}",
            process.tid,
            group.display()
        ))),
    }
}

/// The processes in a control group.
pub fn members(kernel: &dyn Kernel, group: &Path) -> io::Result<Vec<u32>> {
    let procs = kernel.read(&group.join(PROCS))?;
    // 0 stands for what another PID namespace has there.
    Ok(procs.split_whitespace().filter_map(|pid| pid.parse().ok()).filter(|pid| *pid > 0).collect())
}

/// Normalizes a value for comparison: files end in newlines, and some have columns. If a file lists
/// the possible values, the value is the one in brackets, as in `none [bfq]`. `FREEZING` counts as
/// `FROZEN`.
pub fn plain(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut chosen = words.iter().filter_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
    match (chosen.next(), chosen.next()) {
        (Some(chosen), None) => chosen.to_owned(),
        _ if words == ["FREEZING"] => "FROZEN".into(),
        _ => words.join(" "),
    }
}
