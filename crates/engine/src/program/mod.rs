//! Any program as a task: started, pinned, paused and resumed with everything it starts.
//!
//! The worker that runs it adopts what its program leaves behind (it is a *child subreaper*,
//! `prctl(2)`), so the tree stays whole however often it forks. What its work is counted in is
//! the meter's matter; programs that are timed from start to end are [`whole_run`]s.

mod cycle;
mod meter;
pub mod whole_run;

use std::ffi::CString;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::fd::FromRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command as Spawn, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use ringfence_experiment::task::{Command, DEFAULT_WARM_UP};
use ringfence_experiment::units::Share;
use ringfence_machine::cpulist::CpuSet;
use ringfence_machine::probe::pin;
use ringfence_machine::root::FsRoot;

use crate::isolation::cgroup::{self, Group};
use crate::process;
use crate::shm::Slot;

use cycle::Cycle;
use meter::Meter;
pub use meter::instructions_are_counted;

const STOP_LIMIT: Duration = Duration::from_secs(5);

/// A program and its descendants.
pub struct Program {
    launcher: Launcher,
    child: Child,
    started: Instant,
    home: CpuSet,
    meter: Meter,
    cycle: Option<Cycle>,
    root: FsRoot,
    slot: &'static Slot,
}

impl Program {
    /// Starts the program and pauses it after its warm-up. A quota is kept by the group where there is
    /// one, else by stopping and continuing the program.
    ///
    /// # Errors
    /// One sentence where it cannot be started or fails meanwhile.
    pub fn start(
        command: &Command,
        quota: Option<Share>,
        cgroup: Option<&Group>,
        home: &CpuSet,
        slot: &Slot,
    ) -> Result<Self, String> {
        adopt_orphans();
        ring_when_children_end(slot);
        let mut launcher = Launcher::new(command, cgroup)?;
        // Before the first child: only what is forked afterwards inherits a counter.
        let mut meter = Meter::new(command.unit)?;
        let child = launcher.launch(&mut meter)?;
        let cycle = quota.filter(|quota| cgroup.is_none() && quota.0 < 1.0).map(Cycle::new);
        let root = FsRoot::host();
        let mut program = Self {
            launcher,
            child,
            started: Instant::now(),
            home: home.clone(),
            meter,
            cycle,
            root,
            slot: lasting(slot),
        };
        // Counted from the first start: a program that is shorter starts several times meanwhile.
        let (begun, warm_up) = (program.started, command.warm_up.unwrap_or(DEFAULT_WARM_UP).0);
        while begun.elapsed() < warm_up {
            program.keep_running()?;
            std::thread::sleep(Duration::from_millis(5));
        }
        program.pause()?;
        Ok(program)
    }

    /// Work so far.
    pub fn units(&mut self) -> u64 {
        self.meter.units(&self.root)
    }

    /// Lets the tree go on, pinned anew: a program may have moved itself.
    pub fn resume(&mut self) {
        for process in process::descendants(&self.root, own_pid()) {
            for thread in self.root.numbered(format!("/proc/{}/task", process.pid), "") {
                pin::pin_thread(thread as i32, &self.home).ok();
            }
        }
        process::resume_descendants(&self.root, own_pid());
        if let Some(cycle) = &mut self.cycle {
            cycle.begin();
        }
    }

    /// Stops the tree.
    ///
    /// # Errors
    /// Where some process does not stop in time.
    pub fn pause(&mut self) -> Result<(), String> {
        if let Some(cycle) = &mut self.cycle {
            cycle.end();
        }
        if process::stop_descendants(&self.root, own_pid(), STOP_LIMIT) {
            return Ok(());
        }
        let shown = &self.launcher.shown;
        Err(format!("'{shown}' cannot be paused: a process of it did not stop within 5 s"))
    }

    /// Starts the program again if it has ended well.
    ///
    /// # Errors
    /// One sentence where it has failed or cannot be started again.
    pub fn keep_running(&mut self) -> Result<(), String> {
        self.meter.before_the_end(&self.root);
        let shown = &self.launcher.shown;
        let status = self.child.try_wait().map_err(|error| format!("waiting for '{shown}': {error}"))?;
        collect_orphans(self.child.id() as i32);
        let Some(status) = status else { return Ok(()) };
        if !status.success() {
            return Err(self.launcher.epitaph(status, self.started.elapsed()));
        }
        self.meter.ended();
        self.child = self.launcher.launch(&mut self.meter)?;
        self.started = Instant::now();
        self.slot.note_restart();
        Ok(())
    }
}

/// Starts a program, any number of times.
struct Launcher {
    argv: Vec<String>,
    shown: String,
    env: Vec<(String, String)>,
    stderr: File,
    procs: Option<CString>,
}

impl Launcher {
    fn new(command: &Command, cgroup: Option<&Group>) -> Result<Self, String> {
        let stderr = unlinked_file(c"stderr")
            .map_err(|error| format!("making a file for its messages failed: {error}"))?;
        Ok(Self {
            argv: command.argv().unwrap_or_default(),
            shown: command.run.clone(),
            env: command.env.clone().into_iter().collect(),
            stderr,
            procs: cgroup.and_then(|group| CString::new(group.procs().as_os_str().as_bytes()).ok()),
        })
    }

    fn launch(&mut self, meter: &mut Meter) -> Result<Child, String> {
        let program = &self.argv[0];
        let stderr = self.stderr.try_clone().map_err(|error| error.to_string())?;
        let mut spawn = Spawn::new(program);
        spawn.args(&self.argv[1..]).envs(self.env.iter().cloned());
        spawn.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr);
        meter.prepare(&mut spawn);
        if let Some(procs) = self.procs.clone() {
            // SAFETY: `enter` is async-signal-safe.
            unsafe { spawn.pre_exec(move || cgroup::enter(&procs)) };
        }
        let mut child = spawn.spawn().map_err(|error| {
            format!("'{program}' cannot be started: {error}; check the name and the path")
        })?;
        meter.started(&mut child);
        Ok(child)
    }

    fn epitaph(&mut self, status: ExitStatus, after: Duration) -> String {
        let said = tail(&mut self.stderr);
        let said = if said.is_empty() { String::new() } else { format!("; it said: {said}") };
        format!("'{}' ended with {status} after {:.1} s{said}", self.shown, after.as_secs_f64())
    }
}

fn own_pid() -> i32 {
    std::process::id() as i32
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

// The slot lies in shared memory that a worker keeps mapped to its end.
fn lasting(slot: &Slot) -> &'static Slot {
    // SAFETY: as said; a slot consists of atomics.
    unsafe { &*std::ptr::from_ref(slot) }
}

// A thread that rings the worker's bell whenever a child ends. It leaves the child to be waited for.
fn ring_when_children_end(slot: &Slot) {
    let slot = lasting(slot);
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

fn unlinked_file(name: &std::ffi::CStr) -> std::io::Result<File> {
    // SAFETY: the name outlives the call; closed on exec, a program gets a duplicate.
    let fd = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) };
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
