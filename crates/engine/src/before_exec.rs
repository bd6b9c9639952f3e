//! What has to be done with signals, between fork and exec, and for real time: the part that no
//! safe call offers.

use std::ffi::CString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use ringfence_limits::cgroup;

const FROM_OUTSIDE: [i32; 5] =
    [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT, libc::SIGPIPE];

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

/// From now on this thread runs as soon as it is ready, before all that have no real-time priority
/// (sched(7)); whether that is permitted. What it starts does not.
pub fn run_in_time() -> bool {
    let least = libc::sched_param { sched_priority: 1 };
    // SAFETY: an attribute of this thread; the parameter outlives the call.
    unsafe {
        libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &raw const least)
            == 0
    }
}

/// What is started ends with this thread, however that ends, unless it takes on other rights by
/// what it executes (`PR_SET_PDEATHSIG` in prctl(2)).
pub fn end_with_us(command: &mut Command) {
    let us = rustix::process::getpid();
    let end = move || {
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
        // Nothing comes of an end that came before.
        let is_ours = rustix::process::getppid() == Some(us);
        if is_ours { Ok(()) } else { Err(io::Error::from(rustix::io::Errno::SRCH)) }
    };
    // SAFETY: `end` makes two system calls, and allocates nothing.
    unsafe { command.pre_exec(end) };
}

/// What is started runs with this priority.
pub fn take_priority(command: &mut Command, priority: i32) {
    let take =
        move || rustix::process::setpriority_process(None, priority).map_err(io::Error::from);
    // SAFETY: `take` makes a system call, and nothing else.
    unsafe { command.pre_exec(take) };
}
