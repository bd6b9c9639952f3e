//! Any program as a task: started, pinned, paused and resumed with everything it starts.
//!
//! The worker that runs it adopts what its program leaves behind (it is a *child subreaper*,
//! `prctl(2)`), so the tree stays whole however often it forks. Its work is counted in
//! instructions retired or nanoseconds of CPU time, both by perf events that the whole tree
//! inherits, or in finished runs.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::fd::FromRawFd;
use std::process::{Child, Command as Spawn, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use perf_event::events::{Hardware, Software};
use perf_event::{Builder, Counter};
use ringfence_machine::cpulist::CpuId;
use ringfence_machine::probe::pin;
use ringfence_machine::root::FsRoot;

use crate::engine::process;
use crate::engine::shm::Slot;
use crate::task::{Command, ProgramUnit};

// How long a program runs before its first pause, so that starting up is not measured.
const START_UP: Duration = Duration::from_millis(200);
const STOP_LIMIT: Duration = Duration::from_secs(5);

/// A program and its descendants.
pub struct Program {
    argv: Vec<String>,
    shown: String,
    child: Child,
    started: Instant,
    stderr: File,
    cpu: CpuId,
    counter: Option<Counter>,
    runs: bool,
    ended: u64,
    root: FsRoot,
}

impl Program {
    /// Starts the program and pauses it after a while.
    ///
    /// # Errors
    /// One sentence where it cannot be started or ends at once.
    pub fn start(command: &Command, cpu: CpuId, slot: &Slot) -> Result<Self, String> {
        adopt_orphans();
        ring_when_children_end(slot);
        let argv = command.argv().unwrap_or_default();
        let stderr =
            unlinked_file().map_err(|error| format!("making a file for its messages failed: {error}"))?;
        // Before the first child: only what is forked afterwards inherits the counter.
        let instructions = || tree_counter(Builder::new(Hardware::INSTRUCTIONS));
        let time = || tree_counter(Builder::new(Software::TASK_CLOCK));
        let counter = match command.unit {
            ProgramUnit::Auto => instructions().or_else(time),
            ProgramUnit::Instructions => {
                Some(instructions().ok_or("the kernel counts no instructions here")?)
            }
            ProgramUnit::CpuTime => time(),
            ProgramUnit::Runs => None,
        };
        let child = spawn(&argv, &stderr)?;
        let mut program = Self {
            shown: command.run.clone(),
            argv,
            child,
            started: Instant::now(),
            stderr,
            cpu,
            counter,
            runs: command.unit == ProgramUnit::Runs,
            ended: 0,
            root: FsRoot::host(),
        };
        // Counted from the first start: a program that is shorter starts several times meanwhile.
        let begun = program.started;
        while begun.elapsed() < START_UP {
            program.keep_running()?;
            std::thread::sleep(Duration::from_millis(5));
        }
        program.pause()?;
        Ok(program)
    }

    /// Work so far.
    pub fn units(&mut self) -> u64 {
        match &mut self.counter {
            Some(counter) => counter.read().unwrap_or(0),
            None if self.runs => self.ended,
            None => self.ended + self.cpu_time(),
        }
    }

    /// Lets the tree go on, pinned anew: a program may have moved itself.
    pub fn resume(&mut self) {
        for process in process::descendants(&self.root, own_pid()) {
            for thread in self.root.numbered(format!("/proc/{}/task", process.pid), "") {
                pin::pin_thread(thread as i32, self.cpu).ok();
            }
        }
        process::resume_descendants(&self.root, own_pid());
    }

    /// Stops the tree.
    ///
    /// # Errors
    /// Where some process does not stop in time.
    pub fn pause(&mut self) -> Result<(), String> {
        if process::stop_descendants(&self.root, own_pid(), STOP_LIMIT) {
            return Ok(());
        }
        Err(format!("'{}' cannot be paused: a process of it did not stop within 5 s", self.shown))
    }

    /// Starts the program again if it has ended well.
    ///
    /// # Errors
    /// One sentence where it has failed or cannot be started again.
    pub fn keep_running(&mut self) -> Result<(), String> {
        let before = self.cpu_time_if_uncounted();
        let status =
            self.child.try_wait().map_err(|error| format!("waiting for '{}': {error}", self.shown))?;
        collect_orphans(self.child.id() as i32);
        let Some(status) = status else { return Ok(()) };
        if !status.success() {
            return Err(self.epitaph(status));
        }
        self.ended += if self.runs { 1 } else { before };
        self.child = spawn(&self.argv, &self.stderr)?;
        self.started = Instant::now();
        Ok(())
    }

    fn epitaph(&mut self, status: ExitStatus) -> String {
        let said = tail(&mut self.stderr);
        let said = if said.is_empty() { String::new() } else { format!("; it said: {said}") };
        let seconds = self.started.elapsed().as_secs_f64();
        format!("'{}' ended with {status} after {seconds:.1} s{said}", self.shown)
    }

    fn cpu_time_if_uncounted(&self) -> u64 {
        if self.counter.is_some() || self.runs { 0 } else { self.cpu_time() }
    }

    // The time its living threads have run, ns (/proc/PID/task/TID/schedstat, first field).
    fn cpu_time(&self) -> u64 {
        let mut total = 0;
        for process in process::descendants(&self.root, own_pid()) {
            for thread in self.root.numbered(format!("/proc/{}/task", process.pid), "") {
                let path = format!("/proc/{}/task/{thread}/schedstat", process.pid);
                let text = self.root.read_opt(path).unwrap_or_default();
                total += text.split(' ').next().and_then(|ns| ns.parse::<u64>().ok()).unwrap_or(0);
            }
        }
        total
    }
}

fn own_pid() -> i32 {
    std::process::id() as i32
}

fn spawn(argv: &[String], stderr: &File) -> Result<Child, String> {
    let stderr = stderr.try_clone().map_err(|error| error.to_string())?;
    Spawn::new(&argv[0])
        .args(&argv[1..])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(stderr)
        .spawn()
        .map_err(|error| format!("'{}' cannot be started: {error}; check the name and the path", argv[0]))
}

fn adopt_orphans() {
    // SAFETY: a process attribute; no memory is touched.
    unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) };
}

// Descendants adopted after their parents' end would stay as zombies.
fn collect_orphans(child: i32) {
    for process in process::descendants(&FsRoot::host(), own_pid()) {
        if process.parent == own_pid() && process.pid != child && process.state == 'Z' {
            // SAFETY: waits for one process of ours that has ended; no status is asked for.
            unsafe { libc::waitpid(process.pid, std::ptr::null_mut(), libc::WNOHANG) };
        }
    }
}

// A thread that rings the worker's bell whenever a child ends. It leaves the child to be waited for.
fn ring_when_children_end(slot: &Slot) {
    // The slot lies in shared memory that this process keeps mapped to its end.
    // SAFETY: as said; a slot consists of atomics.
    let slot: &'static Slot = unsafe { &*std::ptr::from_ref(slot) };
    std::thread::spawn(move || {
        loop {
            // SAFETY: an all-zero siginfo is a valid out-parameter.
            let ended = unsafe {
                let mut info: libc::siginfo_t = std::mem::zeroed();
                libc::waitid(libc::P_ALL, 0, &mut info, libc::WEXITED | libc::WNOWAIT)
            };
            slot.ring();
            // Until the main thread has collected it, the same child is reported again; without any
            // child there is nothing to wait for.
            std::thread::sleep(Duration::from_millis(if ended == 0 { 2 } else { 20 }));
        }
    });
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
    tree_counter(Builder::new(Hardware::INSTRUCTIONS)).is_some()
}

fn unlinked_file() -> std::io::Result<File> {
    // SAFETY: a constant name; closed on exec, the program gets a duplicate.
    let fd = unsafe { libc::memfd_create(c"stderr".as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just made and is owned by nobody else.
    Ok(unsafe { File::from_raw_fd(fd) })
}

// The last line that the program wrote to its standard error.
fn tail(stderr: &mut File) -> String {
    let length = stderr.seek(SeekFrom::End(0)).unwrap_or(0);
    let mut bytes = Vec::new();
    let from = length.saturating_sub(400);
    if stderr.seek(SeekFrom::Start(from)).and_then(|_| stderr.read_to_end(&mut bytes)).is_err() {
        return String::new();
    }
    let text = String::from_utf8_lossy(&bytes);
    text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("").trim().to_owned()
}
