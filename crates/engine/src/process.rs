//! Process trees: the descendants of a process, and stopping or ending all of them.

use std::collections::HashMap;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use ringfence_machine::root::FsRoot;
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, kill_process, wait, waitid, waitpid,
};

use super::Used;

/// A process, from `/proc/PID/stat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Process {
    /// Its id.
    pub pid: i32,
    /// Its parent's.
    pub parent: i32,
    /// `R`, `S`, `D`, `T`, `Z`...
    pub state: char,
}

/// All descendants of a process, children first.
pub fn descendants(root: &FsRoot, ancestor: i32) -> Vec<Process> {
    let mut children: HashMap<i32, Vec<Process>> = HashMap::new();
    for pid in root.numbered("/proc", "") {
        let stat = root.read_opt(format!("/proc/{pid}/stat")).unwrap_or_default();
        if let Some(process) = parse_stat(&stat) {
            children.entry(process.parent).or_default().push(process);
        }
    }
    let mut found = Vec::new();
    let mut next = vec![ancestor];
    while let Some(pid) = next.pop() {
        for child in children.remove(&pid).unwrap_or_default() {
            next.push(child.pid);
            found.push(child);
        }
    }
    found
}

/// A process and all its descendants, by id.
pub fn family(root: &FsRoot, ancestor: i32) -> Vec<i32> {
    descendants(root, ancestor).into_iter().map(|process| process.pid).chain([ancestor]).collect()
}

// The name, in parentheses, may itself hold spaces and parentheses.
fn parse_stat(stat: &str) -> Option<Process> {
    let (pid, rest) = stat.split_once(" (")?;
    let (_, rest) = rest.rsplit_once(") ")?;
    let mut fields = rest.split(' ');
    let state = fields.next()?.chars().next()?;
    Some(Process { pid: pid.parse().ok()?, parent: fields.next()?.parse().ok()?, state })
}

fn io(root: &FsRoot, pid: i32, keys: &[&str]) -> u64 {
    let text = root.read_opt(format!("/proc/{pid}/io")).unwrap_or_default();
    parse_io(&text, keys)
}

/// What a worker's processes have used until now, those included that it has waited for: all that
/// descends from it, and the worker itself where it does the work.
pub fn used(root: &FsRoot, worker: i32, program: bool) -> Used {
    let ns = ticks_ns();
    let of = |pid: i32| {
        let stat = root.read_opt(format!("/proc/{pid}/stat")).unwrap_or_default();
        parse_times(&stat).unwrap_or_default().map(|ticks| ticks * ns)
    };
    let [user, system, waited_user, waited_system] = of(worker);
    let mut used = Used { cpu_ns: waited_user + waited_system, ..Used::default() };
    let io = |pid: i32, keys: &[&str]| io(root, pid, keys);
    if program {
        // The worker itself reads /proc and pipes, no storage.
        used.io_bytes = io(worker, &["read_bytes", "write_bytes"]);
    } else {
        used.cpu_ns += user + system;
        used.io_bytes = io(worker, &["rchar", "wchar"]);
    }
    used.disk_bytes = io(worker, &["write_bytes"]);
    for process in descendants(root, worker) {
        used.cpu_ns += of(process.pid).iter().sum::<u64>();
        used.disk_bytes += io(process.pid, &["write_bytes"]);
        used.io_bytes += io(process.pid, &["rchar", "wchar"]);
    }
    used
}

// User and system time of a process, and of the children that it has waited for, in ticks: fields
// 14 to 17 of /proc/PID/stat.
fn parse_times(stat: &str) -> Option<[u64; 4]> {
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut fields = rest.split(' ').skip(11).map(|field| field.trim().parse::<u64>().ok());
    Some([fields.next()??, fields.next()??, fields.next()??, fields.next()??])
}

fn parse_io(text: &str, keys: &[&str]) -> u64 {
    let line = |line: &str| {
        let (key, value) = line.split_once(": ")?;
        keys.contains(&key).then(|| value.trim().parse::<u64>().ok())?
    };
    text.lines().filter_map(line).sum()
}

fn ticks_ns() -> u64 {
    1_000_000_000 / rustix::param::clock_ticks_per_second().max(1)
}

/// This process.
pub fn own_pid() -> i32 {
    std::process::id() as i32
}

/// Sends a signal; it is no error if the process has already ended.
pub fn signal(pid: i32, signal: Signal) {
    // Process 0 and 1 and groups (negative ids) are never meant.
    if let Some(pid) = Pid::from_raw(pid).filter(|_| pid > 1) {
        let _ = kill_process(pid, signal);
    }
}

/// From now on what descendants leave behind becomes this process's child (`prctl(2)`, child
/// subreaper).
pub fn adopt_orphans() {
    // Old kernels lack it; then orphans go to the init process, and are found no more.
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
}

/// Waits for the next child to end, whatever started it, and collects it; `None` where there is
/// none.
pub fn wait_for_any() -> Option<(i32, ExitStatus)> {
    // Children that were cloned without a signal at their end, too (__WALL in waitpid(2)).
    let all = WaitOptions::from_bits_retain(0x4000_0000);
    let (pid, status) = wait(all).ok().flatten()?;
    Some((pid.as_raw_nonzero().get(), ExitStatus::from_raw(status.as_raw())))
}

/// Waits for the end of a child, or of any where none is named, and leaves it to be collected;
/// whether there was one.
pub fn wait_for_end(pid: Option<i32>) -> bool {
    let id = pid.and_then(Pid::from_raw).map_or(WaitId::All, WaitId::Pid);
    loop {
        match waitid(id.clone(), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT) {
            Err(Errno::INTR) => {}
            other => return other.is_ok(),
        }
    }
}

/// Collects children of this process that have ended, but for those that are spared: they would
/// stay as zombies.
pub fn collect_zombies(spared: &[i32]) {
    for process in descendants(&FsRoot::host(), own_pid()) {
        if process.parent == own_pid() && process.state == 'Z' && !spared.contains(&process.pid) {
            let _ = waitpid(Pid::from_raw(process.pid), WaitOptions::NOHANG);
        }
    }
}

/// Ends all descendants of `ancestor`, stopped ones and those born meanwhile included. Returns
/// whether none is left but zombies, which their parent has to collect.
pub fn end_descendants(root: &FsRoot, ancestor: i32, limit: Duration) -> bool {
    end_descendants_but(root, ancestor, None, limit)
}

/// The same, but for one with all that it started.
pub fn end_descendants_but(
    root: &FsRoot,
    ancestor: i32,
    spared: Option<i32>,
    limit: Duration,
) -> bool {
    let start = Instant::now();
    loop {
        let spared: Vec<i32> = spared.into_iter().flat_map(|spared| family(root, spared)).collect();
        let alive: Vec<Process> = descendants(root, ancestor)
            .into_iter()
            .filter(|process| process.state != 'Z' && !spared.contains(&process.pid))
            .collect();
        if alive.is_empty() {
            return true;
        }
        for process in &alive {
            signal(process.pid, Signal::KILL);
        }
        if start.elapsed() > limit {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Stops all descendants; those that are born meanwhile are caught in a further round. Returns
/// whether all stand.
pub fn stop_descendants(root: &FsRoot, ancestor: i32, limit: Duration) -> bool {
    let start = Instant::now();
    loop {
        let all = descendants(root, ancestor);
        let moving: Vec<&Process> = all
            .iter()
            .filter(|process| !matches!(process.state, 'T' | 't' | 'Z' | 'X'))
            .filter(|process| !waits_for_stopped_child(root, process, &all))
            .collect();
        if moving.is_empty() {
            return true;
        }
        for process in &moving {
            signal(process.pid, Signal::STOP);
        }
        if start.elapsed() > limit {
            return false;
        }
        std::thread::sleep(Duration::from_micros(200));
    }
}

// A program that starts another one by vfork, as shells and posix_spawn do, cannot be stopped
// before the child has called exec, and a stopped child does not reach that call: neither makes
// progress, and both are resumed together.
fn waits_for_stopped_child(root: &FsRoot, process: &Process, all: &[Process]) -> bool {
    let is_stopped =
        |child: &Process| child.parent == process.pid && matches!(child.state, 'T' | 't');
    if process.state != 'D' || !all.iter().any(is_stopped) {
        return false;
    }
    // What it waits in; unreadable under some security policies.
    let Some(waits_in) = root.read_opt(format!("/proc/{}/syscall", process.pid)) else {
        return true;
    };
    let number = waits_in.split(' ').next().and_then(|number| number.parse().ok());
    number.is_some_and(|number| {
        [libc::SYS_vfork, libc::SYS_clone, libc::SYS_clone3].contains(&number)
    })
}

/// Resumes all descendants.
pub fn resume_descendants(root: &FsRoot, ancestor: i32) {
    for process in descendants(root, ancestor) {
        signal(process.pid, Signal::CONT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_parentheses_are_no_trap() {
        let process = parse_stat("42 (a) b (c) S 7 42 42 0 -1").unwrap();
        assert_eq!(process, Process { pid: 42, parent: 7, state: 'S' });
        assert_eq!(parse_stat(""), None);
    }

    #[test]
    fn times_and_bytes_are_read_where_the_kernel_writes_them() {
        let stat = "42 (a) b (c) S 7 42 42 0 -1 4194560 100 200 0 0 11 12 13 14 20 0 1 0 99 1000 1";
        assert_eq!(parse_times(stat), Some([11, 12, 13, 14]));
        assert_eq!(parse_times("42 (a) S 7"), None);
        let io = "rchar: 100\nwchar: 20\nsyscr: 7\nsyscw: 8\nread_bytes: 4096\nwrite_bytes: \
                  0\ncancelled_write_bytes: 5\n";
        assert_eq!(parse_io(io, &["rchar", "wchar"]), 120);
        assert_eq!(parse_io(io, &["read_bytes", "write_bytes"]), 4096);
        assert_eq!(parse_io("", &["rchar"]), 0);
    }

    // Most of the time of such a shell goes by between vfork and exec.
    #[test]
    fn a_shell_that_starts_programs_without_end_can_be_stopped_at_any_time() {
        let root = FsRoot::host();
        let script = "sh -c 'while :; do /bin/true; done'; :";
        let mut child = std::process::Command::new("sh").args(["-c", script]).spawn().unwrap();
        let pid = child.id() as i32;
        let mut between = 0;
        for _ in 0..300 {
            assert!(stop_descendants(&root, pid, Duration::from_secs(10)));
            between +=
                descendants(&root, pid).iter().filter(|process| process.state == 'D').count();
            resume_descendants(&root, pid);
            std::thread::sleep(Duration::from_micros(500));
        }
        end_descendants(&root, pid, Duration::from_secs(10));
        child.kill().ok();
        child.wait().unwrap();
        println!("stopped {between} of 300 times between vfork and exec");
    }

    #[test]
    fn a_tree_is_stopped_resumed_and_ended_whole() {
        let root = FsRoot::host();
        // A shell with a child that has a child, all of which ignore a polite request to end.
        let script = "trap '' TERM; sh -c 'trap \"\" TERM; sleep 600; :' & wait; :";
        let mut child = std::process::Command::new("sh").args(["-c", script]).spawn().unwrap();
        let pid = child.id() as i32;
        let started = Instant::now();
        while descendants(&root, pid).len() < 2 && started.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(5));
        }
        let below: Vec<i32> = descendants(&root, pid).iter().map(|process| process.pid).collect();
        assert_eq!(below.len(), 2);
        assert!(stop_descendants(&root, pid, Duration::from_secs(10)));
        assert!(descendants(&root, pid).iter().all(|process| process.state == 'T'));
        resume_descendants(&root, pid);
        assert!(stop_descendants(&root, pid, Duration::from_secs(10)));
        assert!(end_descendants(&root, pid, Duration::from_secs(10)));
        assert!(child.wait().is_ok());
        for pid in below {
            let stat = root.read_opt(format!("/proc/{pid}/stat")).unwrap_or_default();
            assert!(
                parse_stat(&stat).is_none_or(|process| process.state == 'Z'),
                "{pid} is still there"
            );
        }
    }
}
