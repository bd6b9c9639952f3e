//! The guardian: the process that starts workers and outlives the supervisor just long enough to
//! end them.
//!
//! The supervisor holds the other end of its standard input. However the supervisor dies, the
//! kernel closes that pipe; the guardian reads its end, ends every descendant, stopped ones
//! included, and then itself. It is a child subreaper (`prctl(2)`), so nothing that a worker's
//! program leaves behind escapes it, and it leads a session of its own, so a Ctrl-C at the terminal
//! reaches the supervisor alone. Should the guardian itself be killed, its workers die with it, and
//! end what they had started first; what is left falls to the supervisor, which is a child
//! subreaper too and ends it.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::RawFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use ringfence_experiment::task::Task;
use ringfence_experiment::units::Share;
use ringfence_machine::root::FsRoot;
use ringfence_system::changes::Changes;
use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use super::worker::Spec;
use super::{before_exec, process};
use ringfence_limits::cgroup::{self, Group};
use ringfence_limits::quota;

/// The hidden first argument by which a program runs as a guardian; the second is a descriptor.
pub const GUARDIAN: &str = "__guardian";
/// The same for a worker.
pub const WORKER: &str = "__worker";

const END_LIMIT: Duration = Duration::from_secs(20);

/// A message from the supervisor to the guardian, a line of JSON each.
#[derive(Debug, Serialize, Deserialize)]
enum Message {
    Start(Spec),
    End { slot: usize },
}

/// A message from the guardian to the supervisor, a line of JSON each.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// The worker of a slot runs.
    Started {
        /// The slot.
        slot: usize,
        /// Its process id.
        pid: i32,
    },
    /// The worker of a slot and everything it started are gone.
    Ended {
        /// The slot.
        slot: usize,
        /// How it ended, in words.
        how: String,
    },
}

/// Runs the hidden part of the program that its first arguments name, if they do; it does not
/// return then. To be called first in `main` of every program that uses
/// [`super::host::HostEngine`].
pub fn enter_hidden_role() {
    // What a user gives may be no text.
    let mut arguments = std::env::args_os().skip(1);
    let (Some(role), Some(fd)) = (arguments.next(), arguments.next()) else { return };
    let Some(fd) = fd.to_str().and_then(|fd| fd.parse::<RawFd>().ok()) else { return };
    let whose = arguments.next().and_then(|pid| pid.to_str()?.parse().ok());
    match role.to_str().unwrap_or_default() {
        // It may have been killed by now, and is no parent then.
        GUARDIAN => main(fd, whose.unwrap_or_else(std::os::unix::process::parent_id)),
        WORKER => super::worker::main(fd),
        _ => {}
    }
}

type Workers = Arc<(Mutex<HashMap<i32, Known>>, Condvar)>;

/// What is known of a worker.
struct Known {
    slot: usize,
    /// Where its tasks have files with names.
    folders: Vec<PathBuf>,
}

// Workers are killed, and leave there what they had. Nothing is done to what others hold.
fn sweep(folders: &[PathBuf]) {
    folders.iter().for_each(|folder| ringfence_workloads::churn::sweep(folder));
}

fn folders_of(spec: &Spec) -> Vec<PathBuf> {
    let tasks = spec.tasks.iter().flatten();
    tasks.filter_map(|assigned| assigned.task.names_files_in()).map(Path::to_owned).collect()
}

fn main(fd: RawFd, supervisor: u32) -> ! {
    // Fails for a session leader, which already has a session of its own.
    let _ = rustix::process::setsid();
    before_exec::ignore_signals();
    process::adopt_orphans();
    let mut groups = Groups::default();
    let workers: Workers = Arc::default();
    let mut folders = Vec::new();
    let collector = workers.clone();
    std::thread::spawn(move || collect(&collector));
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        match serde_json::from_str(&line) {
            Ok(Message::Start(mut spec)) => {
                groups.limit(&mut spec);
                folders.extend(folders_of(&spec));
                start(&spec, fd, &workers);
            }
            Ok(Message::End { slot }) => end(slot, &workers),
            Err(_) => break,
        }
    }
    process::end_descendants(&FsRoot::host(), process::own_pid(), END_LIMIT);
    sweep(&folders);
    // Its groups are empty by now, and go.
    drop(groups);
    ringfence_limits::recover(supervisor);
    std::process::exit(0);
}

fn tell(event: &Event) {
    let mut line = serde_json::to_string(event).unwrap_or_default();
    line.push('\n');
    // A supervisor that is gone hears nothing; the end of standard input says so too.
    let _ = std::io::stdout().lock().write_all(line.as_bytes());
}

fn start(spec: &Spec, fd: RawFd, workers: &Workers) {
    // Held until the worker is entered, so that its end is not collected before.
    let mut known = workers.0.lock().unwrap();
    let mut command = Command::new("/proc/self/exe");
    command.arg0("ringfence-worker").args([WORKER, &fd.to_string()]);
    command.stdin(Stdio::piped()).stdout(Stdio::null());
    before_exec::restore_signals(&mut command);
    match command.spawn() {
        Ok(mut child) => {
            let pid = child.id() as i32;
            known.insert(pid, Known { slot: spec.slot, folders: folders_of(spec) });
            let text = serde_json::to_string(spec).unwrap_or_default();
            if let Some(mut stdin) = child.stdin.take() {
                let _ = stdin.write_all(text.as_bytes());
            }
            tell(&Event::Started { slot: spec.slot, pid });
            workers.1.notify_all();
        }
        Err(error) => {
            tell(&Event::Ended { slot: spec.slot, how: format!("cannot be started: {error}") });
        }
    }
}

/// The groups of programs with a quota, until all have ended.
#[derive(Default)]
struct Groups {
    changes: Option<Changes>,
    made: usize,
}

impl Groups {
    // A program with a quota runs in a group that has it, where one can be made. Programs have a
    // worker each. The group of the trial before may still be there.
    fn limit(&mut self, spec: &mut Spec) {
        let quota = spec.tasks.iter().flatten().find_map(|assigned| match assigned.task {
            Task::Command(_) => assigned.quota,
            _ => None,
        });
        spec.cgroup = quota.and_then(|share| self.make(share));
    }

    fn make(&mut self, share: Share) -> Option<Group> {
        let root = FsRoot::host();
        if self.changes.is_none() {
            self.changes = cgroup::begin(&root, "quotas of programs").ok();
        }
        let name = format!("{}-{}", std::process::id(), self.made);
        self.made += 1;
        Group::make(&root, self.changes.as_mut()?, &name, &quota::settings(share)).ok()
    }
}

fn end(slot: usize, workers: &Workers) {
    let pid =
        workers.0.lock().unwrap().iter().find(|(_, known)| known.slot == slot).map(|(pid, _)| *pid);
    if let Some(pid) = pid {
        // What it started first: once it is gone, they would be this process's children.
        process::end_descendants(&FsRoot::host(), pid, END_LIMIT);
        process::signal(pid, Signal::KILL);
    }
}

// Collects children as they end: workers are reported, adopted orphans are ended.
fn collect(workers: &Workers) {
    loop {
        let Some((pid, status)) = process::wait_for_any() else {
            let known = workers.0.lock().unwrap();
            if known.is_empty() {
                drop(workers.1.wait(known));
            }
            continue;
        };
        let known = workers.0.lock().unwrap().remove(&pid);
        if let Some(Known { slot, folders }) = known {
            sweep(&folders);
            end_orphans(|| workers.0.lock().unwrap().keys().copied().collect());
            tell(&Event::Ended { slot, how: status.to_string() });
        }
    }
}

// Ends the children of this process but for the spared ones, with everything below them.
fn end_orphans(spared: impl Fn() -> Vec<i32>) {
    let root = FsRoot::host();
    let begun = Instant::now();
    while begun.elapsed() < END_LIMIT {
        let (spared, below) = (spared(), process::descendants(&root, process::own_pid()));
        let orphans = below.iter().filter(|process| {
            process.parent == process::own_pid()
                && !spared.contains(&process.pid)
                && process.state != 'Z'
        });
        let mut any = false;
        for orphan in orphans {
            any = true;
            process::end_descendants(&root, orphan.pid, END_LIMIT);
            process::signal(orphan.pid, Signal::KILL);
        }
        if !any {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The supervisor's end of a guardian.
pub struct Guardian {
    child: Child,
    stdin: Option<ChildStdin>,
    events: Receiver<Event>,
    // What else this process had started before.
    others: Vec<i32>,
    folders: Vec<PathBuf>,
}

impl Guardian {
    /// Starts a guardian of this very program, which must call [`enter_hidden_role`]. From then on
    /// this process is a child subreaper (`prctl(2)`): should the guardian be killed, every child
    /// that this process did not have before is ended when the value is dropped.
    ///
    /// # Errors
    /// What the kernel reports.
    pub fn start(fd: RawFd) -> std::io::Result<Self> {
        process::adopt_orphans();
        let below = process::descendants(&FsRoot::host(), process::own_pid());
        let others = below
            .iter()
            .filter(|process| process.parent == process::own_pid())
            .map(|process| process.pid)
            .collect();
        let mut child = Command::new("/proc/self/exe")
            .arg0("ringfence-guardian")
            .args([GUARDIAN, &fd.to_string(), &process::own_pid().to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().expect("it is piped");
        let (sender, events) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let Ok(event) = serde_json::from_str(&line) else { break };
                if sender.send(event).is_err() {
                    break;
                }
            }
        });
        Ok(Self { child, stdin, events, others, folders: Vec::new() })
    }

    /// Its process id.
    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    fn send(&mut self, message: &Message) -> std::io::Result<()> {
        let mut line = serde_json::to_string(message)?;
        line.push('\n');
        self.stdin.as_mut().expect("open until drop").write_all(line.as_bytes())
    }

    /// Has a worker started.
    ///
    /// # Errors
    /// Where the guardian is gone.
    pub fn start_worker(&mut self, spec: Spec) -> std::io::Result<()> {
        self.folders.extend(folders_of(&spec));
        self.send(&Message::Start(spec))
    }

    /// Has a worker and everything it started ended.
    ///
    /// # Errors
    /// Where the guardian is gone.
    pub fn end_worker(&mut self, slot: usize) -> std::io::Result<()> {
        self.send(&Message::End { slot })
    }

    /// The next event, if one comes in time. `Err` where the guardian is gone.
    pub fn event(&self, limit: Duration) -> Result<Option<Event>, GuardianGone> {
        match self.events.recv_timeout(limit) {
            Ok(event) => Ok(Some(event)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(GuardianGone),
        }
    }
}

/// The guardian has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the guardian process ended, and the tasks with it; it may have been killed because memory ran \
     out"
)]
pub struct GuardianGone;

#[cfg(test)]
impl Guardian {
    /// A guardian that starts nothing and reports what a test sends. Not to be dropped: it would
    /// collect the other tests' processes.
    pub fn stand_in() -> (std::mem::ManuallyDrop<Self>, mpsc::Sender<Event>) {
        let (sender, events) = mpsc::channel();
        let mut cat = Command::new("cat");
        let mut child = cat.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let stdin = child.stdin.take();
        let (others, folders) = (Vec::new(), Vec::new());
        (std::mem::ManuallyDrop::new(Self { child, stdin, events, others, folders }), sender)
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let in_order = self.child.wait().is_ok_and(|status| status.success());
        // What the guardian had ended but not yet collected falls to this process.
        process::collect_zombies(&self.others);
        if !in_order {
            end_orphans(|| self.others.clone());
            sweep(&self.folders);
            ringfence_limits::recover(self.child.id());
        }
    }
}
