//! Processes that run a 32-bit program: they run as they are, unrecorded, and are followed until
//! they end or execute a program that can be recorded.

use std::io;
use std::path::Path;

use super::process::{self, Change, Unrecorded};
use super::service::Service;

impl Service<'_> {
    /// Lets a stopped process run unrecorded.
    pub(super) fn leave_unrecorded(&mut self, process: i32, has_filter: bool) -> io::Result<()> {
        let program = std::fs::read_link(format!("/proc/{process}/exe"))?;
        self.note(format!(
            "{} is a 32-bit program, which cannot be recorded: it ran unrecorded",
            program.display()
        ));
        self.writer.unrecorded(&program.to_string_lossy());
        process::follow(process)?;
        self.space_of.remove(&process);
        self.unrecorded.insert(process, Unrecorded { has_filter, is_new: false });
        process::go_on(process, 0)
    }

    /// One of its threads has stopped.
    pub(super) fn go_on_unrecorded(&mut self, thread: i32, change: Change, known: Unrecorded) {
        self.unrecorded.insert(thread, Unrecorded { is_new: false, ..known });
        // It fails only where the thread was killed meanwhile.
        let _ = match change {
            Change::Halted if !known.is_new => process::stay_halted(thread),
            Change::Signal(libc::SIGSTOP) if known.is_new => process::go_on(thread, 0),
            Change::Signal(signal) => process::go_on(thread, signal),
            Change::Made(child) => {
                self.unrecorded.insert(child, Unrecorded { is_new: true, ..known });
                process::go_on(thread, 0)
            }
            _ => process::go_on(thread, 0),
        };
    }

    /// Forgets those that are no more. One that has ended is there until we have waited for it.
    pub(super) fn forget_unrecorded(&mut self) {
        self.unrecorded.retain(|thread, _| Path::new(&format!("/proc/{thread}")).exists());
    }
}
