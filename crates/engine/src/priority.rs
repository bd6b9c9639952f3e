//! Whoever measures runs before those that are measured, where that is permitted, so that the ends of a window come
//! when they are due however many processes a task starts. It sleeps nearly all of the time, so that the tasks lose
//! nothing by it. Where it is refused, a window that comes to last too long is left out of the figures.
//!
//! A real-time policy (sched(7)) also comes before tasks of other sessions, which the kernel otherwise gives as much
//! as ours together, whatever the priorities in each (autogroups, the same page). The second best is a high priority
//! among ours (setpriority(2)).

use rustix::process::{getpriority_process, setpriority_process};

use crate::before_exec::set_policy;

// The highest there is.
const HIGHEST: i32 = -20;

/// This thread runs first; when this is dropped it is as it was.
pub struct First {
    before: i32,
    how: How,
}

enum How {
    RealTime,
    Priority,
    Refused,
}

impl First {
    /// From now on, if it is permitted.
    pub fn now() -> Self {
        let before = getpriority_process(None).unwrap_or(0);
        let how = if set_policy(libc::SCHED_RR | libc::SCHED_RESET_ON_FORK, 1) {
            How::RealTime
        } else if setpriority_process(None, HIGHEST).is_ok() {
            How::Priority
        } else {
            How::Refused
        };
        Self { before, how }
    }

    /// The priority from before, for processes that this thread starts; their policy is the ordinary one.
    pub fn before(&self) -> i32 {
        self.before
    }
}

impl Drop for First {
    fn drop(&mut self) {
        match self.how {
            // Without the right to, it stays set that children have the ordinary policy, which they should.
            How::RealTime => {
                let _ = set_policy(libc::SCHED_OTHER, 0)
                    || set_policy(libc::SCHED_OTHER | libc::SCHED_RESET_ON_FORK, 0);
            }
            // Lowering is always permitted.
            How::Priority => {
                let _ = setpriority_process(None, self.before);
            }
            How::Refused => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::before_exec::policy;

    // Its policy and priority.
    fn now() -> (i32, i32) {
        (policy() & !libc::SCHED_RESET_ON_FORK, getpriority_process(None).unwrap())
    }

    #[test]
    fn a_thread_runs_first_and_then_as_before() {
        let before = now();
        let first = First::now();
        let expected = match first.how {
            How::RealTime => (libc::SCHED_RR, before.1),
            How::Priority => (before.0, HIGHEST),
            How::Refused => before,
        };
        assert_eq!((now(), first.before()), (expected, before.1));
        drop(first);
        assert_eq!(now(), before);
    }
}
