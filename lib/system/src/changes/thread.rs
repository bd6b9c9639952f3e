//! Threads and processes that are known again.

use std::io;
use std::os::fd::OwnedFd;

use crate::root::FsRoot;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde::{Deserialize, Serialize};

/// A thread that can be recognised again: its number alone may belong to another thread later. A
/// process is identified by its first thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Thread {
    /// Its id (`gettid(2)`).
    pub tid: u32,
    /// When it was started, in clock ticks since boot (`proc(5)`, field 22 of `stat`).
    pub start: u64,
}

/// When a thread was started; `None` when there is no such thread.
pub fn started(root: &FsRoot, tid: u32) -> Option<u64> {
    stat(root, tid).map(|(_, start)| start)
}

/// Whether a process exists and has not ended: a zombie does not count.
pub fn lives(root: &FsRoot, process: Thread) -> bool {
    stat(root, process.tid)
        .is_some_and(|(state, start)| start == process.start && !matches!(state, 'Z' | 'X'))
}

/// Holds a process (`pidfd_open(2)`), and no later one of its number: it is looked at while it is
/// held. `None` where it has ended.
///
/// # Errors
/// The errno: `ENOSYS` below any root but the machine's own, and before Linux 5.3; `EPERM` for
/// process 1, which is never meant.
pub fn hold(root: &FsRoot, process: Thread) -> io::Result<Option<OwnedFd>> {
    if !root.is_host() {
        return Err(Errno::NOSYS.into());
    }
    let pid = i32::try_from(process.tid).ok().filter(|pid| *pid > 1).and_then(Pid::from_raw);
    let held = match pidfd_open(pid.ok_or(Errno::PERM)?, PidfdFlags::empty()) {
        Err(Errno::SRCH) => return Ok(None),
        held => held?,
    };
    Ok((started(root, process.tid) == Some(process.start)).then_some(held))
}

// The name in parentheses may hold anything; the state, which is the third field, follows the last
// one.
fn stat(root: &FsRoot, tid: u32) -> Option<(char, u64)> {
    let stat = root.read_opt(format!("/proc/{tid}/stat"))?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    Some((fields.next()?.chars().next()?, fields.nth(18)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_program_lives_and_a_later_one_of_its_number_is_another() {
        let root = FsRoot::host();
        let tid = std::process::id();
        let own = Thread { tid, start: started(&root, tid).unwrap() };
        assert!(own.start > 0 && lives(&root, own));
        assert!(!lives(&root, Thread { start: own.start + 1, ..own }));
    }

    #[test]
    fn a_process_that_waits_to_be_collected_lives_no_more() {
        let root = FsRoot::host();
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let process = Thread { tid: child.id(), start: started(&root, child.id()).unwrap() };
        while lives(&root, process) {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert_eq!(started(&root, process.tid), Some(process.start));
        child.wait().unwrap();
        assert_eq!(started(&root, process.tid), None);
    }
}
