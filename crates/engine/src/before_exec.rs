//! What has to be done with signals, and between fork and exec: the part that no safe call offers.

use std::ffi::CString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::isolation::cgroup;

const FROM_OUTSIDE: [i32; 5] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT, libc::SIGPIPE];

/// From now on this process ignores what a terminal or a user sends to end it.
pub fn ignore_signals() {
    for signal in FROM_OUTSIDE {
        // SAFETY: a process attribute; no handler of ours is involved.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

/// What this process ignores, what it starts must not.
pub fn restore_signals(command: &mut Command) {
    let restore = || {
        for signal in FROM_OUTSIDE {
            // SAFETY: as above; `signal` may be called between fork and exec (signal-safety(7)).
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
        Ok(())
    };
    // SAFETY: `restore` calls nothing else.
    unsafe { command.pre_exec(restore) };
}

/// What is started enters a control group before it runs, by the group's `cgroup.procs`.
pub fn enter_group(command: &mut Command, procs: CString) {
    // SAFETY: it opens, writes and closes a file by system calls alone, and allocates nothing.
    unsafe { command.pre_exec(move || cgroup::enter(&procs).map_err(io::Error::from)) };
}

/// What is started runs with this priority.
pub fn take_priority(command: &mut Command, priority: i32) {
    let take = move || rustix::process::setpriority_process(None, priority).map_err(io::Error::from);
    // SAFETY: `take` makes a system call, and nothing else.
    unsafe { command.pre_exec(take) };
}
