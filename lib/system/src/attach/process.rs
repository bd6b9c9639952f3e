//! Processes as `/proc` shows them.

use std::path::Path;

use crate::changes::Thread;
use crate::root::{FsRoot, field};

/// A process, from `/proc/PID/stat` (`proc(5)`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// What it is known by: its number and start.
    pub id: Thread,
    /// Its parent's number.
    pub parent: u32,
    /// Its process group.
    pub group: u32,
    /// Its session.
    pub session: u32,
    /// That of its first thread: `R`, `S`, `D`, `T`, `Z`...
    pub state: char,
    /// How many threads it has.
    pub threads: u32,
    /// Whether it is one of the kernel's own.
    pub is_kernel: bool,
    /// The first 15 bytes of its name.
    pub name: String,
}

// include/linux/sched.h.
const PF_KTHREAD: u64 = 0x0020_0000;

impl Process {
    /// A process that is there.
    pub fn read(root: &FsRoot, pid: u32) -> Option<Self> {
        Self::parse(&root.read_opt(format!("/proc/{pid}/stat"))?)
    }

    // The name, in parentheses, may itself hold spaces and parentheses.
    fn parse(stat: &str) -> Option<Self> {
        let (pid, rest) = stat.split_once(" (")?;
        let (name, rest) = rest.rsplit_once(") ")?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        // The first of these is field 3.
        let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
        let small = |field| number(field).and_then(|number| u32::try_from(number).ok());
        Some(Self {
            id: Thread { tid: pid.parse().ok()?, start: number(22)? },
            parent: small(4)?,
            group: small(5).unwrap_or_default(),
            session: small(6).unwrap_or_default(),
            state: fields.first()?.chars().next()?,
            threads: small(20)?,
            is_kernel: number(9)? & PF_KTHREAD != 0,
            name: name.to_owned(),
        })
    }

    /// Its number.
    pub fn pid(&self) -> u32 {
        self.id.tid
    }

    /// Whether it has ended but for being collected: a first thread may end before the others.
    pub fn has_ended(&self) -> bool {
        self.threads <= 1 && matches!(self.state, 'Z' | 'X')
    }

    /// Whether no thread of it runs, or will until it is resumed. A thread that starts a program by
    /// vfork cannot be stopped before the child has called exec, and a child that is stopped does
    /// not come to that: such a thread stands where the process has a stopped child.
    pub fn stands(&self, root: &FsRoot, has_stopped_child: bool) -> bool {
        let stands = |state: char, tid: u32| match state {
            'T' | 't' | 'Z' | 'X' => true,
            'D' if has_stopped_child => waits_in_vfork(root, self.pid(), tid),
            _ => false,
        };
        if self.threads <= 1 {
            return stands(self.state, self.pid());
        }
        let state = |tid: &u32| {
            let stat = root.read_opt(format!("/proc/{}/task/{tid}/stat", self.pid()))?;
            Self::parse(&stat).map(|thread| thread.state)
        };
        threads(root, self.pid())
            .iter()
            .all(|tid| state(tid).is_none_or(|state| stands(state, *tid)))
    }
}

// The system call that a thread waits in; unreadable under some security policies, and then this is
// the likeliest.
fn waits_in_vfork(root: &FsRoot, pid: u32, tid: u32) -> bool {
    let Some(waits_in) = root.read_opt(format!("/proc/{pid}/task/{tid}/syscall")) else {
        return true;
    };
    let number = waits_in.split(' ').next().and_then(|number| number.parse().ok());
    let forking = [
        #[cfg(target_arch = "x86_64")]
        libc::SYS_vfork,
        libc::SYS_clone,
        libc::SYS_clone3,
    ];
    number.is_some_and(|number| forking.contains(&number))
}

/// The threads of a process.
pub fn threads(root: &FsRoot, pid: u32) -> Vec<u32> {
    root.numbered(format!("/proc/{pid}/task"), "")
}

/// The numbers of all processes.
pub fn all(root: &FsRoot) -> Vec<u32> {
    root.numbered("/proc", "")
}

/// The children of a process; `None` where the kernel does not list them (`CONFIG_PROC_CHILDREN`).
pub fn children(root: &FsRoot, process: &Process) -> Option<Vec<u32>> {
    let pid = process.pid();
    let threads = if process.threads <= 1 { vec![pid] } else { threads(root, pid) };
    let mut found = Vec::new();
    let mut any = false;
    for tid in threads {
        if let Some(text) = root.read_opt(format!("/proc/{pid}/task/{tid}/children")) {
            any = true;
            found.extend(text.split_whitespace().filter_map(|child| child.parse::<u32>().ok()));
        }
    }
    (any || !root.exists(format!("/proc/{pid}"))).then_some(found)
}

/// This program's number, as that `/proc` has it.
pub fn own(root: &FsRoot) -> Option<u32> {
    root.read_opt("/proc/self/stat")?.split(' ').next()?.parse().ok()
}

/// Those above a process, the nearest first.
pub fn ancestors(root: &FsRoot, pid: u32) -> Vec<Process> {
    let mut above: Vec<Process> = Vec::new();
    let mut next = Process::read(root, pid).map_or(0, |process| process.parent);
    // Numbers may be given anew while this is read.
    while next > 0 && above.iter().all(|process| process.pid() != next) {
        let Some(process) = Process::read(root, next) else { break };
        next = process.parent;
        above.push(process);
    }
    above
}

/// The name of the program that a link such as `/proc/PID/exe` leads to.
pub fn program(exe: &Path) -> Option<String> {
    let name = exe.file_name()?.to_string_lossy().into_owned();
    // So the kernel marks one that was replaced by an update.
    Some(name.strip_suffix(" (deleted)").map_or(name.clone(), str::to_owned))
}

/// Whether a process is in a PID namespace below the one that `/proc` shows, as a container's are.
pub fn is_below_namespace(status: &str) -> bool {
    field(status, "NSpid").is_some_and(|pids| pids.split_whitespace().count() > 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_parentheses_are_no_trap() {
        let stat = "42 (a) b (c) S 7 41 40 0 -1 4194560 100 200 0 0 11 12 13 14 20 0 3 0 99 1000 1";
        let process = Process::parse(stat).unwrap();
        assert_eq!((process.id, process.parent), (Thread { tid: 42, start: 99 }, 7));
        assert_eq!((process.group, process.session, process.threads), (41, 40, 3));
        assert_eq!((process.state, process.is_kernel, &*process.name), ('S', false, "a) b (c"));
        assert_eq!(Process::parse("42 (a) S 7"), None);
        let kernel = stat.replace("4194560", "69238880");
        assert!(Process::parse(&kernel).unwrap().is_kernel);
    }

    #[test]
    fn this_program_is_below_its_ancestors() {
        let root = FsRoot::host();
        let own = own(&root).unwrap();
        assert_eq!(own, std::process::id());
        let above = ancestors(&root, own);
        assert_eq!(above[0].pid(), std::os::unix::process::parent_id());
        let parent = Process::read(&root, above[0].pid()).unwrap();
        assert!(children(&root, &parent).is_none_or(|children| children.contains(&own)));
    }
}
