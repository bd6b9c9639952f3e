//! What becomes of the recorded processes where the recorder is killed.

// A process that is forked and never executes another program; nothing in it may allocate.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::shared_memory::Memory;

/// A process beside the recorder. Where the recorder is killed, it ends all that was recorded:
/// children of the command would continue otherwise, unseen, until they ask for something.
pub(super) struct Watcher {
    // A reader of the other end sees the end of this process, however it comes.
    alive: OwnedFd,
    process: i32,
}

impl Watcher {
    /// `copies` is a folder that goes, too.
    pub(super) fn start(memory: &Memory, copies: Option<&Path>) -> io::Result<Self> {
        let copies = copies.map(|path| CString::new(path.as_os_str().as_bytes())).transpose()?;
        let (ours, theirs) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        // SAFETY: the child makes system calls and looks at shared memory; it allocates nothing.
        match unsafe { libc::fork() } {
            ..0 => Err(io::Error::last_os_error()),
            0 => {
                drop(theirs);
                watch(&ours, memory, copies.as_deref())
            }
            process => Ok(Self { alive: theirs, process }),
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let _ = rustix::io::write(&self.alive, b".");
        // SAFETY: a child of ours, and nothing is told.
        while unsafe { libc::waitpid(self.process, std::ptr::null_mut(), 0) } < 0
            && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
        {}
    }
}

// What the watcher does: waits for the recorder's end. A byte says that it is the expected one.
fn watch(alive: &OwnedFd, memory: &Memory, copies: Option<&CStr>) -> ! {
    const OWN: i32 = 3;
    // SAFETY: descriptors of this process alone; what is printed by others shall not wait for us.
    unsafe {
        libc::setsid();
        libc::prctl(libc::PR_SET_NAME, c"ringfence-watch".as_ptr());
        if alive.as_raw_fd() != OWN {
            libc::dup2(alive.as_raw_fd(), OWN);
        }
        libc::syscall(libc::SYS_close_range, OWN + 1, u32::MAX, 0);
        (0..OWN).for_each(|descriptor| _ = libc::close(descriptor));
        let mut byte = 0u8;
        let count = loop {
            let count = libc::read(OWN, (&raw mut byte).cast(), 1);
            if count >= 0 || *libc::__errno_location() != libc::EINTR {
                break count;
            }
        };
        // Some may be about to start others.
        let mut turns = 100;
        while count <= 0 && turns > 0 && end_recorded(memory) {
            libc::usleep(5000);
            turns -= 1;
        }
        if count <= 0
            && let Some(copies) = copies
        {
            let remove = c"/bin/rm";
            let words = [remove, c"-rf", c"--", copies].map(CStr::as_ptr);
            libc::execl(
                remove.as_ptr(),
                words[0],
                words[1],
                words[2],
                words[3],
                std::ptr::null::<libc::c_char>(),
            );
        }
        libc::_exit(0)
    }
}

// Ends every process that is recorded; whether there was one.
fn end_recorded(memory: &Memory) -> bool {
    let mut any = false;
    for thread in 0..memory.threads_so_far() {
        let process = memory.ids(thread).0 as i32;
        if process > 0 && is_recorded(process) {
            any = true;
            // SAFETY: one that has our runtime.
            unsafe { libc::kill(process, libc::SIGKILL) };
        }
    }
    any
}

// Whether our runtime is mapped in a process: its number could be another's by now.
fn is_recorded(process: i32) -> bool {
    const NAME: &[u8] = b"ringfence-runtime";
    let mut path = [0u8; 32];
    if write!(&mut path[..31], "/proc/{process}/maps").is_err() {
        return false;
    }
    // SAFETY: a path with its end; the buffer is as long as is said.
    unsafe {
        let file = libc::open(path.as_ptr().cast(), libc::O_RDONLY);
        let (mut buffer, mut kept) = ([0u8; 4096], 0);
        let found = loop {
            let count = libc::read(file, buffer[kept..].as_mut_ptr().cast(), buffer.len() - kept);
            if count <= 0 {
                break false;
            }
            let end = kept + count as usize;
            if buffer[..end].windows(NAME.len()).any(|text| text == NAME) {
                break true;
            }
            // It may go on in the next piece.
            kept = end.min(NAME.len() - 1);
            buffer.copy_within(end - kept..end, 0);
        };
        libc::close(file);
        found
    }
}
