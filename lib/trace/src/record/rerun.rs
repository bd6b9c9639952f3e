//! A recorded command run again, as fast as it is, on copies of its files.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use super::RecordError;
use super::copy::Copies;
use super::process::{self, Ran};

/// What is run, and how.
#[derive(Debug, Clone)]
pub struct Again {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// Where; `None`: here.
    pub directory: Option<PathBuf>,
    /// Files and folders that the command sees as copies.
    pub files: Vec<PathBuf>,
    /// A new folder for the copies.
    pub copies: PathBuf,
    /// Environment variables that are set for it.
    pub environment: Vec<(String, String)>,
}

impl Again {
    /// Runs it, with nothing to read and without showing what it prints.
    ///
    /// # Errors
    /// Where the files cannot be copied, or the command cannot be started.
    pub fn run(&self) -> Result<Ran, RecordError> {
        let copies = Copies::of(&self.files, &self.copies)
            .map_err(|source| RecordError::Copy { folder: self.copies.clone(), source })?;
        let copies = Arc::new(copies);
        let program = self.command[0].to_string_lossy().into_owned();
        let mut command = Command::new(&self.command[0]);
        command.args(&self.command[1..]).envs(self.environment.iter().cloned());
        command.current_dir(self.directory.as_deref().unwrap_or(Path::new(".")));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        process::run(command, &copies)
            .map_err(|source| RecordError::of_start(program, &copies, source))
    }
}
