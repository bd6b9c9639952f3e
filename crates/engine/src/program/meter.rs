//! What a program's work is counted in, and how it is read.

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::process::{Child, Command as Spawn, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use perf_event::events::{Hardware, Software};
use perf_event::{Builder, Counter};
use ringfence_experiment::task::{Command, ProgramUnit};
use ringfence_machine::root::FsRoot;

use super::files::in_memory;
use super::latencies::{Printed, drain};
use crate::process;

/// The environment variable that names the file of a program's counter.
pub const COUNTER: &str = "RINGFENCE_COUNTER";

/// Counts a program's work over all its starts.
pub enum Meter {
    /// By a perf event that the whole tree inherits.
    Event(Counter),
    /// By the CPU time in /proc, where perf events are refused: of what ended, and of what trials.
    CpuTime { ended: u64, latest: u64 },
    /// By its ends.
    Runs(u64),
    /// By the lines it writes.
    Lines { seen: Arc<AtomicU64>, pipe: Option<OwnedFd> },
    /// By the lines it writes, each of them a latency.
    Latencies(Printed),
    /// By the number it writes, plus those of earlier starts.
    Counter { file: File, ended: u64 },
}

impl Meter {
    /// A meter for programs that are started from now on.
    ///
    /// # Errors
    /// One sentence where it cannot be had.
    pub fn new(command: &Command) -> Result<Self, String> {
        let time = || match tree_counter(Builder::new(Software::TASK_CLOCK)) {
            Some(counter) => Meter::Event(counter),
            None => Meter::CpuTime { ended: 0, latest: 0 },
        };
        Ok(match command.unit {
            ProgramUnit::Auto => instructions().map_or_else(time, Meter::Event),
            ProgramUnit::Instructions => {
                Meter::Event(instructions().ok_or("the kernel counts no instructions here")?)
            }
            ProgramUnit::CpuTime => time(),
            ProgramUnit::Runs | ProgramUnit::WholeRun => Meter::Runs(0),
            ProgramUnit::Lines => Meter::Lines { seen: Arc::default(), pipe: None },
            ProgramUnit::Latencies => {
                Meter::Latencies(Printed::new(command.log_unit.unwrap_or_default()))
            }
            ProgramUnit::Counter => {
                let file = in_memory("counter").and_then(|file| file.set_len(4096).map(|()| file));
                let file = file
                    .map_err(|error| format!("creating a file for its counter failed: {error}"))?;
                Meter::Counter { file, ended: 0 }
            }
        })
    }

    /// Sets up what a program that is about to start needs.
    pub fn prepare(&mut self, spawn: &mut Spawn) {
        match self {
            Meter::Lines { .. } | Meter::Latencies(_) => {
                spawn.stdout(Stdio::piped());
            }
            Meter::Counter { file, .. } => {
                // It lives as long as this process, and every process that may trace this one may
                // open it.
                spawn.env(COUNTER, format!("/proc/{}/fd/{}", process::own_pid(), file.as_raw_fd()));
            }
            Meter::Event(_) | Meter::CpuTime { .. } | Meter::Runs(_) => {}
        }
    }

    /// Takes up what a started program gives.
    pub fn started(&mut self, child: &mut Child) {
        if let Meter::Latencies(printed) = self {
            printed.listen(child);
        }
        if let Meter::Lines { seen, pipe } = self
            && let Some(mut output) = child.stdout.take()
        {
            *pipe = output.as_fd().try_clone_to_owned().ok();
            let seen = seen.clone();
            std::thread::spawn(move || {
                let mut buffer = vec![0; 1 << 16];
                while let Ok(length @ 1..) = output.read(&mut buffer) {
                    let lines = buffer[..length].iter().filter(|byte| **byte == b'\n').count();
                    seen.fetch_add(lines as u64, Ordering::Release);
                }
            });
        }
    }

    /// Work so far.
    pub fn units(&mut self, root: &FsRoot) -> u64 {
        match self {
            Meter::Event(counter) => counter.read().unwrap_or(0),
            Meter::CpuTime { ended, .. } => *ended + cpu_time(root),
            Meter::Runs(runs) => *runs,
            Meter::Lines { seen, pipe } => {
                if let Some(pipe) = pipe {
                    drain(pipe);
                }
                seen.load(Ordering::Acquire)
            }
            Meter::Latencies(printed) => printed.seen().units,
            Meter::Counter { file, ended } => *ended + read_counter(file),
        }
    }

    /// The latencies that it prints, where it does.
    pub fn printed(&mut self) -> Option<&mut Printed> {
        match self {
            Meter::Latencies(printed) => Some(printed),
            _ => None,
        }
    }

    /// Notes what is lost with the program's end.
    pub fn before_the_end(&mut self, root: &FsRoot) {
        if let Meter::CpuTime { latest, .. } = self {
            *latest = cpu_time(root);
        }
    }

    /// The program has ended well.
    pub fn ended(&mut self) {
        match self {
            Meter::Event(_) => {}
            Meter::Lines { pipe, .. } => *pipe = None,
            Meter::Latencies(printed) => printed.ended(),
            Meter::CpuTime { ended, latest } => *ended += std::mem::take(latest),
            Meter::Runs(runs) => *runs += 1,
            Meter::Counter { file, ended } => {
                *ended += read_counter(file);
                // A file in memory: nothing that could fail.
                let _ = file.write_all_at(&[0; 8], 0);
            }
        }
    }
}

fn read_counter(file: &File) -> u64 {
    let mut bytes = [0; 8];
    // The file is in memory and never shorter.
    let _ = file.read_exact_at(&mut bytes, 0);
    u64::from_ne_bytes(bytes)
}

// The time that the living threads below this process have run, ns (/proc/PID/task/TID/schedstat,
// first field).
fn cpu_time(root: &FsRoot) -> u64 {
    let mut total = 0;
    for process in process::descendants(root, process::own_pid()) {
        for thread in root.numbered(format!("/proc/{}/task", process.pid), "") {
            let path = format!("/proc/{}/task/{thread}/schedstat", process.pid);
            let text = root.read_opt(path).unwrap_or_default();
            total += text.split(' ').next().and_then(|ns| ns.parse::<u64>().ok()).unwrap_or(0);
        }
    }
    total
}

fn instructions() -> Option<Counter> {
    tree_counter(Builder::new(Hardware::INSTRUCTIONS))
}

// Counts over this process and everything it starts from now on; its own share is negligible, it
// sleeps while the program runs.
fn tree_counter(mut builder: Builder) -> Option<Counter> {
    let mut counter = builder.inherit(true).build().ok()?;
    counter.enable().ok()?;
    Some(counter)
}

/// Whether the kernel counts instructions for this process and its children.
pub fn instructions_are_counted() -> bool {
    instructions().is_some()
}
