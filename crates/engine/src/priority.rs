//! The measuring process runs before the processes that it measures, where that is permitted
//! (setpriority(2)), so that windows end when they are due however many processes a task starts. It
//! sleeps nearly all of the time, so that the tasks lose nothing by it. Where it is refused, a
//! window that lasts too long is left out of the figures.

use rustix::process::{getpriority_process, setpriority_process};

// The highest there is.
const FIRST: i32 = -20;

/// This thread runs first, and so do those that it starts; dropping this restores the old priority.
pub struct First {
    before: Option<i32>,
}

impl First {
    /// From now on, if it is permitted.
    pub fn now() -> Self {
        let before = getpriority_process(None).ok();
        Self { before: before.filter(|_| setpriority_process(None, FIRST).is_ok()) }
    }

    /// The priority from before, if it is another now.
    pub fn before(&self) -> Option<i32> {
        self.before
    }
}

impl Drop for First {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            // Lowering is always permitted.
            let _ = setpriority_process(None, before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_runs_first_and_then_as_before() {
        let now = || getpriority_process(None).unwrap();
        let before = now();
        let first = First::now();
        assert_eq!(now(), first.before().map_or(before, |_| FIRST));
        drop(first);
        assert_eq!(now(), before);
    }
}
