//! The end of a worker whose guardian has ended: it ends the processes that it started, which no
//! other process knows of.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ringfence_machine::root::FsRoot;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{PidfdFlags, Signal, getppid, pidfd_open, set_parent_process_death_signal};

use crate::process;

static ORPHANED: AtomicBool = AtomicBool::new(false);
const END_LIMIT: Duration = Duration::from_secs(20);

/// Asks the kernel to end this process with its parent, and ends it if the parent has already
/// ended.
pub(super) fn die_with_parent() {
    let asked = set_parent_process_death_signal(Some(Signal::KILL));
    if asked.is_err() || std::os::unix::process::parent_id() == 1 {
        std::process::exit(1);
    }
}

/// From now on this process does not die with its parent at once: a thread sees its end, ends all
/// that this process has started, and then itself.
pub(super) fn end_all_with_parent() {
    process::adopt_orphans();
    let parent = getppid();
    // Without one, or on an old kernel, it dies as before.
    let Some(held) = parent.and_then(|parent| pidfd_open(parent, PidfdFlags::empty()).ok()) else {
        return;
    };
    let watching =
        std::thread::Builder::new().name("ends with parent".into()).spawn(move || watch(&held));
    if watching.is_err() || set_parent_process_death_signal(None).is_err() {
        return;
    }
    // It may have ended before it was held: that number is another's then.
    if getppid() != parent {
        end_all();
    }
}

fn watch(parent: &OwnedFd) {
    while let Err(Errno::INTR) = poll(&mut [PollFd::new(parent, PollFlags::IN)], None) {}
    end_all();
}

/// Suppresses failures that follow from the guardian's end, which they would hide.
pub(super) fn wait_if_orphaned() {
    while ORPHANED.load(Ordering::Acquire) {
        std::thread::park();
    }
}

fn end_all() -> ! {
    ORPHANED.store(true, Ordering::Release);
    process::end_descendants(&FsRoot::host(), process::own_pid(), END_LIMIT);
    std::process::exit(1)
}
