//! Processes and control groups of the real machine, made for one test and gone with it.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ringfence_system::attach::{Found, Freezer, NotYet, Options, Process, Target, find};
use ringfence_system::mounts;
use ringfence_system::root::FsRoot;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tempfile::TempDir;

pub const LONG: Duration = Duration::from_millis(100);
/// The machine may be busy with other things.
pub const LIMIT: Duration = Duration::from_secs(10);

/// Tests freeze often; the budget is tested by itself.
pub fn options(folder: &TempDir) -> Options {
    let changes = ringfence_system::changes::Options {
        folder: Some(folder.path().to_owned()),
        ..ringfence_system::changes::Options::default()
    };
    Options { longest: LIMIT, share: 0.9, changes, ..Options::default() }
}

/// Waits until the budget allows it.
pub fn wait(freezer: &Freezer, long: Duration) {
    while let Err(NotYet::Until(left)) = freezer.may_freeze(long) {
        std::thread::sleep(left);
    }
}

pub fn send(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid as i32).unwrap(), signal).unwrap();
}

pub fn root() -> FsRoot {
    FsRoot::host()
}

pub fn found(target: &str) -> Found {
    find(&root(), &target.parse::<Target>().unwrap()).unwrap()
}

/// A program in a process group of its own, which is killed with all that is in the group.
pub struct Job(pub Child);

impl Job {
    pub fn start(program: &str, arguments: &[&str]) -> Self {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Self(command.process_group(0).spawn().unwrap())
    }

    pub fn shell(script: &str) -> Self {
        Self::start("sh", &["-c", script])
    }

    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    pub fn target(&self) -> String {
        format!("pid:{}", self.pid())
    }

    /// All processes in its process group.
    pub fn all(&self) -> Vec<Process> {
        let all = root().numbered("/proc", "");
        all.into_iter()
            .filter_map(|pid| Process::read(&root(), pid))
            .filter(|process| process.group == self.pid())
            .collect()
    }

    pub fn signal(&self, signal: Signal) {
        let _ = kill_process_group(Pid::from_raw(self.pid() as i32).unwrap(), signal);
    }

    /// Until so many are there.
    pub fn wait_for(&self, count: usize) {
        eventually("processes are there", || self.all().len() >= count);
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
        let _ = self.0.wait();
        // Some may be forked while they are killed.
        let until = Instant::now() + Duration::from_secs(20);
        while self.all().iter().any(|process| !process.has_ended()) && Instant::now() < until {
            self.signal(Signal::KILL);
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

#[track_caller]
pub fn eventually(what: &str, is: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(30);
    while !is() {
        assert!(Instant::now() < until, "never: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[allow(dead_code)]
pub fn state(pid: u32) -> Option<char> {
    Process::read(&root(), pid).map(|process| process.state)
}

/// Whether a process gets CPU time: more than what it takes to go to sleep after the kernel counts
/// it as frozen.
pub fn runs(pid: u32) -> bool {
    // The first figure is time on a CPU in ns, the second waiting for one.
    let used = || -> Option<u64> {
        root().read_opt(format!("/proc/{pid}/schedstat"))?.split(' ').next()?.parse().ok()
    };
    let before = used();
    std::thread::sleep(Duration::from_millis(30));
    used().zip(before).is_some_and(|(after, before)| after > before + 1_000_000)
}

/// A control group of this machine.
pub struct Group(pub PathBuf);

impl Group {
    /// With a file that freezes: `cgroup.freeze` of version 2, or `freezer.state` of version 1.
    pub fn make(name: &str, file: &str) -> Result<Self, String> {
        let table = root().read_opt("/proc/self/mounts").unwrap_or_default();
        let has = |mount: &mounts::Mount| match file {
            "cgroup.freeze" => mount.fs == "cgroup2",
            _ => mount.fs == "cgroup" && mount.has("freezer"),
        };
        let mount = mounts::of_table(&table).into_iter().find(has);
        let point = mount.ok_or_else(|| format!("no hierarchy with {file} is mounted"))?.point;
        let group = point.join(format!("ringfence-test-{}-{name}", std::process::id()));
        std::fs::create_dir(&group)
            .map_err(|error| format!("making {}: {error}", group.display()))?;
        let group = Self(group);
        let there = group.0.join(file).exists();
        if there { Ok(group) } else { Err(format!("{} has no {file}", group.0.display())) }
    }

    pub fn enter(&self, pid: u32) {
        std::fs::write(self.0.join("cgroup.procs"), pid.to_string()).unwrap();
    }

    pub fn read(&self, file: &str) -> String {
        std::fs::read_to_string(self.0.join(file)).unwrap().trim().to_owned()
    }

    pub fn target(&self) -> String {
        format!("cgroup:{}", self.0.display())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // What is killed in a frozen group of version 1 ends once it is thawed, and a group goes
        // once it is empty.
        let until = Instant::now() + Duration::from_secs(20);
        let gone = |folder: &Path| std::fs::remove_dir(folder).is_ok() || !folder.exists();
        while !gone(&self.0) && Instant::now() < until {
            let _ = std::fs::write(self.0.join("cgroup.freeze"), "0");
            let _ = std::fs::write(self.0.join("freezer.state"), "THAWED");
            let inside = std::fs::read_to_string(self.0.join("cgroup.procs")).unwrap_or_default();
            for pid in inside.lines().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)) {
                let _ = kill_process(pid, Signal::KILL);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
