//! Starting a program, any number of times.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::process::{Child, Command as Spawn, ExitStatus, Stdio};
use std::time::Duration;

use ringfence_experiment::Error;
use ringfence_experiment::task::Command;

use super::files::in_memory;
use super::meter::Meter;
use crate::before_exec;
use crate::priority::First;
use ringfence_limits::cgroup::Group;

// Of a run's output no more than this is searched, from its end.
const LOOKED_AT: u64 = 4 << 20;

/// Starts a program, any number of times.
pub struct Launcher {
    argv: Vec<String>,
    /// Its command line.
    pub shown: String,
    env: Vec<(String, String)>,
    stderr: File,
    /// What it writes to its standard output in one run, where that is looked at.
    stdout: Option<File>,
    procs: Option<CString>,
    first: First,
}

impl Launcher {
    /// Of a command that runs in a control group, where there is one. From now on this thread runs
    /// before others; what it launches does not.
    ///
    /// # Errors
    /// Where there is no memory for its messages.
    pub fn new(command: &Command, cgroup: Option<&Group>) -> Result<Self, Error> {
        let stderr = in_memory("stderr")
            .map_err(Error::trying("creating a file for its messages failed"))?;
        let stdout = command
            .figure
            .as_ref()
            .map(|_| in_memory("stdout"))
            .transpose()
            .map_err(Error::trying("creating a file for its output failed"))?;
        Ok(Self {
            stdout,
            argv: command.argv().unwrap_or_default(),
            shown: command.run.clone(),
            env: command.env.clone().into_iter().collect(),
            stderr,
            first: First::now(),
            procs: cgroup.and_then(|group| CString::new(group.procs().as_os_str().as_bytes()).ok()),
        })
    }

    /// Starts it.
    ///
    /// # Errors
    /// Where it cannot be started.
    pub fn launch(&mut self, meter: &mut Meter) -> Result<Child, Error> {
        let program = &self.argv[0];
        let stderr = self.stderr.try_clone().map_err(Error::failed_by)?;
        let mut spawn = Spawn::new(program);
        spawn.args(&self.argv[1..]).envs(self.env.iter().cloned());
        spawn.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr);
        if let Some(stdout) = &mut self.stdout {
            let own = empty(stdout)
                .and_then(|()| empty(&mut self.stderr))
                .and_then(|()| stdout.try_clone());
            spawn.stdout(own.map_err(Error::failed_by)?);
        }
        meter.prepare(&mut spawn);
        if let Some(priority) = self.first.before() {
            before_exec::take_priority(&mut spawn, priority);
        }
        if let Some(procs) = self.procs.clone() {
            before_exec::enter_group(&mut spawn, procs);
        }
        before_exec::end_with_us(&mut spawn);
        let mut child = spawn.spawn().map_err(|error| {
            Error::usage(format!(
                "'{program}' cannot be started: {error}; check the name and the path"
            ))
        })?;
        meter.started(&mut child);
        Ok(child)
    }

    /// What it wrote in its last run, where that is looked at: to its standard output, and to its
    /// standard error.
    pub fn written(&self) -> (String, String) {
        (self.stdout.as_ref().map(end_of).unwrap_or_default(), end_of(&self.stderr))
    }

    /// How it ended, in a sentence with its last words.
    pub fn epitaph(&mut self, status: ExitStatus, after: Duration) -> String {
        let said = tail(&mut self.stderr);
        let said =
            if said.is_empty() { String::new() } else { format!("; its last output: {said}") };
        format!("'{}' ended with {status} after {:.1} s{said}", self.shown, after.as_secs_f64())
    }
}

// The last line that the program wrote to its standard error.
fn tail(stderr: &mut File) -> String {
    let length = stderr.seek(SeekFrom::End(0)).unwrap_or(0);
    let mut bytes = Vec::new();
    let from = length.saturating_sub(400);
    if stderr.seek(SeekFrom::Start(from)).and_then(|_| stderr.read_to_end(&mut bytes)).is_err() {
        return String::new();
    }
    last_line(&String::from_utf8_lossy(&bytes)).to_owned()
}

/// The last line of a text that is not empty.
pub fn last_line(text: &str) -> &str {
    text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("").trim()
}

// The next program shares this file offset, and starts writing there.
fn empty(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()
}

// Reads without moving the file offset, since another program may still write at it.
fn end_of(file: &File) -> String {
    let length = file.metadata().map_or(0, |metadata| metadata.len());
    let from = length.saturating_sub(LOOKED_AT);
    let mut bytes = vec![0; (length - from) as usize];
    match file.read_exact_at(&mut bytes, from) {
        Ok(()) => String::from_utf8_lossy(&bytes).into_owned(),
        // Another program has truncated it meanwhile.
        Err(_) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringfence_experiment::task::ProgramUnit;
    use rustix::process::getpriority_process;

    #[test]
    fn what_is_launched_has_the_priority_of_before() {
        let before = getpriority_process(None).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let told = dir.path().join("nice");
        let command = Command::new(format!("sh -c 'nice > {}'", told.display()));
        let mut launcher = Launcher::new(&command, None).unwrap();
        let mut meter = Meter::new(&Command { unit: ProgramUnit::Runs, ..command }).unwrap();
        assert!(launcher.launch(&mut meter).unwrap().wait().unwrap().success());
        assert_eq!(std::fs::read_to_string(told).unwrap().trim(), before.to_string());
    }
}
