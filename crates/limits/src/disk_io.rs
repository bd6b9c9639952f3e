//! Whose requests reach a disk when a task uses files: what is set for a task holds for its own.

use ringfence_experiment::Reason;
use ringfence_experiment::task::{Commit, DirtyIo, Io, Sync, Task};

/// Why what a task does to a disk is done by others, such that nothing that is set for the task
/// holds for it; `None` where it does some of it itself, and for programs, which may.
pub fn of_others(task: &Task) -> Option<Reason> {
    const LATER: &str = "what it writes stays in the page cache, and the kernel's own threads \
                         write it to the disk later";
    let why = match task {
        Task::Dirty(dirty) if dirty.io == DirtyIo::Buffered => LATER,
        Task::Commit(Commit { sync: Sync::None, io: Io::Buffered, .. }) => LATER,
        Task::Churn(_) => {
            "the file system's own threads write the changes from creating and removing files"
        }
        Task::Scan(_) | Task::Dirty(_) | Task::Commit(_) | Task::Command(_) => return None,
        Task::Attached(_) => {
            "the aggressor is a running process, and it is unknown which files it writes"
        }
        _ => "the aggressor uses no disk",
    };
    Some(why.into())
}

/// Why version 2 of control groups holds nothing of a task's against the group that it is moved
/// into, if so: it charges what is written back to the group in which its page was first cached
/// (kernel documentation, admin-guide/cgroup-v2, "Memory Ownership" and "Writeback"), and a
/// built-in task's file is cached before its arm begins.
pub fn charged_elsewhere(task: &Task) -> Option<Reason> {
    let own = match task {
        Task::Dirty(dirty) => dirty.io == DirtyIo::Direct,
        Task::Commit(commit) => matches!(commit.io, Io::Direct | Io::Atomic),
        _ => true,
    };
    (!own).then(|| {
        "cgroup v2 charges a page to the group that first cached it, and the aggressor's file is \
         cached before the aggressor is moved into a group; a program that is started in the group \
         can be limited"
            .into()
    })
}
