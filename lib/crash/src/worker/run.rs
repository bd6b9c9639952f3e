//! One run of a command, in a process namespace of its own.

// `clone`, and what is done between it and the command, have no safe wrapper.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::{PipeFlags, pipe_with};

use super::orders::{Order, Ran, Read as ReadWords, Setup, Status};
use super::reads::{Follower, Functions, Marks, filter, ptrace};

// What a run may print.
const MOST_PRINTED: usize = 16 << 20;
// Of standard error.
const KEPT: usize = 8 << 10;
// The most processes of a run, and the interval at which they are counted: RLIMIT_NPROC is per
// user, and does not apply to root.
const MOST_PROCESSES: usize = 256;
static LOOK: libc::timespec = libc::timespec { tv_sec: 0, tv_nsec: 5_000_000 };
// Reported instead of a status.
const TOO_MANY: i32 = -1;

/// Where a command finds what recovery printed, if it is given that.
pub(super) const RECOVERED: &str = "/dev/shm/recovered";

/// Runs it below a root.
pub(super) fn run(
    root: &Path,
    setup: &Setup,
    files: &[(u64, u64)],
    order: &Order,
    functions: &mut Functions,
) -> io::Result<Ran> {
    let pipe = || pipe_with(PipeFlags::CLOEXEC);
    let ((out, out_end), (errors, errors_end), (status, status_end)) = (pipe()?, pipe()?, pipe()?);
    let input = match &order.given {
        Some(given) => holding(&given.input)?,
        None => File::open("/dev/null")?,
    };
    let command = match &order.given {
        Some(_) => format!("export RECOVERED={RECOVERED}\n{}", order.command),
        None => order.command.clone(),
    };
    let read = rustix::fs::memfd_create("read", rustix::fs::MemfdFlags::CLOEXEC)?;
    let start = Start {
        root: text(root)?,
        directory: text(&setup.directory)?,
        words: words_of(&command)?,
        command: CString::new(command)?,
        input: input.as_raw_fd(),
        output: out_end.as_raw_fd(),
        errors: errors_end.as_raw_fd(),
        status: status_end.as_raw_fd(),
        disk: setup.disk,
        memory: setup.memory,
        stored: &setup.words,
        open: &order.open,
        functions,
        files,
        read: read.as_raw_fd(),
        is_followed: order.keep.is_none(),
    };
    let began = Instant::now();
    let init = start.begin()?;
    drop((out_end, errors_end, status_end));
    let mut seen = Seen { output: Vec::new(), errors: Vec::new(), status: Vec::new() };
    let ended = seen.wait([out, errors, status], began + order.time);
    // All processes of the namespace end with its first one.
    // SAFETY: a child of ours, which has not been waited for.
    unsafe {
        libc::kill(init, libc::SIGKILL);
        libc::waitpid(init, std::ptr::null_mut(), libc::__WALL);
    }
    let took = began.elapsed();
    let status = match (ended, <[u8; 4]>::try_from(&seen.status[..])) {
        (Ended::Late, _) => Status::TooLong,
        (Ended::Full, _) => Status::TooMuch,
        (Ended::Over, Ok(raw)) => status_of(i32::from_le_bytes(raw)),
        (Ended::Over, Err(_)) => {
            let why = String::from_utf8_lossy(&seen.errors).into_owned();
            return Err(io::Error::other(format!("the command could not be started: {why}")));
        }
    };
    let (mut text, mut file) = (Vec::new(), File::from(read));
    file.rewind()?;
    file.read_to_end(&mut text)?;
    // It is not known of a run that had to be ended.
    let read = match serde_json::from_slice(&text) {
        Ok((read, known)) => {
            *functions = known;
            read
        }
        Err(_) => Marks::new(&setup.words, &order.open).all(),
    };
    Ok(Ran { status, output: seen.output, errors: seen.errors, took, read })
}

// The words of a command that names a file and that a shell would only execute; otherwise none. It
// saves the start of a shell, a fifth of the time of a small program.
fn words_of(command: &str) -> io::Result<Vec<CString>> {
    let is_plain = |one: char| one.is_ascii_alphanumeric() || " _-+./,:@%".contains(one);
    let words: Vec<&str> = command.split(' ').filter(|word| !word.is_empty()).collect();
    let is_file = words.first().is_some_and(|first| first.contains('/'));
    if !is_file || !command.chars().all(is_plain) {
        return Ok(Vec::new());
    }
    words.into_iter().map(|word| Ok(CString::new(word)?)).collect()
}

// A file in memory with a text.
fn holding(text: &str) -> io::Result<File> {
    let mut file = File::from(rustix::fs::memfd_create("input", rustix::fs::MemfdFlags::CLOEXEC)?);
    file.write_all(text.as_bytes())?;
    file.rewind()?;
    Ok(file)
}

fn text(path: &Path) -> io::Result<CString> {
    Ok(CString::new(path.as_os_str().as_bytes())?)
}

fn status_of(raw: i32) -> Status {
    if raw == TOO_MANY {
        Status::TooMany
    } else if libc::WIFSIGNALED(raw) {
        Status::Signal(libc::WTERMSIG(raw))
    } else {
        // A shell reports a signal as 128 plus its number.
        match libc::WEXITSTATUS(raw) {
            code @ 129..=192 => Status::Signal(code - 128),
            code => Status::Exited(code),
        }
    }
}

enum Ended {
    Over,
    Late,
    Full,
}

struct Seen {
    output: Vec<u8>,
    errors: Vec<u8>,
    status: Vec<u8>,
}

impl Seen {
    // Waits for the status only: processes that the command left running may keep its output open.
    fn wait(&mut self, pipes: [OwnedFd; 3], until: Instant) -> Ended {
        let mut open = pipes.map(|pipe| Some(File::from(pipe)));
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ended::Late;
            }
            let timeout =
                Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
            let ready: Vec<usize> = {
                let which: Vec<usize> = (0..3).filter(|at| open[*at].is_some()).collect();
                let mut all: Vec<PollFd<'_>> = which
                    .iter()
                    .filter_map(|at| open[*at].as_ref())
                    .map(|file| PollFd::from_borrowed_fd(file.as_fd(), PollFlags::IN))
                    .collect();
                if poll(&mut all, Some(&timeout)).is_err() {
                    continue;
                }
                let ready = all.iter().zip(which).filter(|(one, _)| !one.revents().is_empty());
                ready.map(|(_, at)| at).collect()
            };
            // What was printed before it ended is read first.
            for at in ready {
                let mut buffer = [0; 1 << 14];
                let Some(file) = &mut open[at] else { continue };
                let count = file.read(&mut buffer).unwrap_or(0);
                let (into, is_over) = match at {
                    0 => (&mut self.output, false),
                    1 => (&mut self.errors, false),
                    _ => (&mut self.status, count == 0),
                };
                into.extend_from_slice(&buffer[..count]);
                if at == 1 && into.len() > 2 * KEPT {
                    into.drain(..into.len() - KEPT);
                }
                if at == 0 && into.len() > MOST_PRINTED {
                    return Ended::Full;
                }
                if count == 0 {
                    open[at] = None;
                }
                if is_over || self.status.len() == 4 {
                    self.rest(&mut open);
                    return Ended::Over;
                }
            }
        }
    }

    // What was printed and not yet read.
    fn rest(&mut self, open: &mut [Option<File>; 3]) {
        for (file, into) in open.iter_mut().zip([&mut self.output, &mut self.errors]) {
            let Some(file) = file else { continue };
            let nonblocking = rustix::fs::OFlags::NONBLOCK;
            if rustix::fs::fcntl_setfl(&*file, nonblocking).is_ok() {
                // It ends with an error where there is no more for now.
                let _ = file.take(MOST_PRINTED as u64).read_to_end(into);
            }
        }
    }
}

// How many there are in this namespace, whose /proc is there. It allocates nothing.
fn processes() -> usize {
    let mut buffer = [0u8; 4096];
    let mut count = 0;
    // SAFETY: the kernel writes entries into memory of ours, each with its length (getdents(2)).
    unsafe {
        let folder = libc::open(c"/proc".as_ptr(), libc::O_RDONLY | libc::O_DIRECTORY);
        if folder < 0 {
            return 0;
        }
        loop {
            let size = buffer.len();
            let read = libc::syscall(libc::SYS_getdents64, folder, buffer.as_mut_ptr(), size);
            let Ok(read @ 1..) = usize::try_from(read) else { break };
            let mut at = 0;
            while at < read {
                // The inode, the offset, the length, the kind; then the name.
                count += usize::from(buffer[at + 19].is_ascii_digit());
                at += usize::from(u16::from_le_bytes([buffer[at + 16], buffer[at + 17]]));
            }
        }
        libc::close(folder);
    }
    count
}

// Everything that the processes between the worker and the command need. Those of a worker have one
// thread, so that they may allocate.
struct Start<'s> {
    root: CString,
    directory: CString,
    // Of a command that needs no shell.
    words: Vec<CString>,
    command: CString,
    input: RawFd,
    output: RawFd,
    errors: RawFd,
    status: RawFd,
    disk: u64,
    memory: u64,
    stored: &'s [(usize, u64)],
    open: &'s [u32],
    functions: &'s Functions,
    files: &'s [(u64, u64)],
    read: RawFd,
    is_followed: bool,
}

impl Start<'_> {
    // Starts the first process of a namespace, which starts the command, and waits for it.
    fn begin(&self) -> io::Result<i32> {
        let flags = libc::CLONE_NEWPID | libc::CLONE_NEWNS | libc::SIGCHLD;
        // SAFETY: as `fork`: the child has a copy of our memory, and our one thread.
        let child = unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) };
        match child {
            -1 => {
                let error = io::Error::last_os_error();
                Err(io::Error::other(format!("the system refuses a process namespace: {error}")))
            }
            0 => self.init(),
            child => Ok(child as i32),
        }
    }

    fn init(&self) -> ! {
        // SAFETY: system calls on memory of ours; the process never returns.
        unsafe {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            if libc::chroot(self.root.as_ptr()) != 0 || libc::chdir(c"/".as_ptr()) != 0 {
                self.fail(b"the root cannot be changed");
            }
            // Without it, some commands lack what they look for there.
            libc::mount(
                c"proc".as_ptr(),
                c"/proc".as_ptr(),
                c"proc".as_ptr(),
                libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC,
                std::ptr::null(),
            );
            let mut child: libc::sigset_t = std::mem::zeroed();
            libc::sigaddset(&raw mut child, libc::SIGCHLD);
            libc::sigprocmask(libc::SIG_BLOCK, &raw const child, std::ptr::null_mut());
            let mut go = [0; 2];
            if libc::pipe2(go.as_mut_ptr(), libc::O_CLOEXEC) != 0 {
                self.fail(b"there is no pipe");
            }
            let command = libc::fork();
            if command == 0 {
                libc::sigprocmask(libc::SIG_UNBLOCK, &raw const child, std::ptr::null_mut());
                self.command(go);
            }
            if command < 0 {
                self.fail(b"no process can be started");
            }
            // If it cannot be traced, everything counts as read.
            let is_followed = u8::from(self.is_followed && ptrace::seize(command).is_ok());
            libc::write(go[1], (&raw const is_followed).cast(), 1);
            let marks = Marks::new(self.stored, self.open);
            let functions = self.functions.clone();
            self.follow(command, Follower::new(marks, self.files, functions, command), &child)
        }
    }

    unsafe fn follow(&self, command: i32, mut follower: Follower<'_>, child: &libc::sigset_t) -> ! {
        let mut is_time = false;
        for turn in 1.. {
            let mut status = 0;
            // SAFETY: as for the caller.
            let changed =
                unsafe { libc::waitpid(-1, &raw mut status, libc::__WALL | libc::WNOHANG) };
            if changed == command && !libc::WIFSTOPPED(status) {
                self.report_read(&follower.read());
                // SAFETY: as for the caller.
                unsafe { self.report(status) }
            }
            if (is_time || turn % 4096 == 0) && processes() > MOST_PROCESSES {
                // SAFETY: as for the caller.
                unsafe { self.report(TOO_MANY) }
            }
            is_time = false;
            match changed {
                1.. => follower.changed(changed, status),
                // SAFETY: as for the caller.
                0 => unsafe {
                    let signal = libc::sigtimedwait(child, std::ptr::null_mut(), &raw const LOOK);
                    is_time = signal < 0;
                },
                // SAFETY: as for the caller.
                _ => unsafe { libc::_exit(1) },
            }
        }
        unreachable!("turns without end")
    }

    // Reports to the worker what was read. Without that, everything counts as read.
    fn report_read(&self, read: &(ReadWords, Functions)) {
        // SAFETY: it is open, and nothing else in this process uses it.
        let mut to = unsafe { File::from_raw_fd(self.read) };
        let _ = serde_json::to_vec(read).map(|text| to.write_all(&text));
    }

    // The worker ends this process, and all that the command has left.
    unsafe fn report(&self, status: i32) -> ! {
        // SAFETY: as for the caller.
        unsafe {
            libc::write(self.status, (&raw const status).cast(), 4);
            loop {
                libc::kill(-1, libc::SIGKILL);
                libc::usleep(1000);
            }
        }
    }

    unsafe fn command(&self, go: [RawFd; 2]) -> ! {
        // SAFETY: as for the caller.
        unsafe {
            let mut is_followed = 0u8;
            libc::read(go[0], (&raw mut is_followed).cast(), 1);
            libc::setsid();
            libc::dup2(self.input, 0);
            libc::dup2(self.output, 1);
            libc::dup2(self.errors, 2);
            if libc::chdir(self.directory.as_ptr()) != 0 {
                self.fail(b"its folder is not there");
            }
            let limit = |what, most: u64| {
                let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
                libc::setrlimit(what, &raw const limit);
            };
            limit(libc::RLIMIT_CORE, 0);
            if self.is_followed {
                // A recorder has large files, which stay empty, and memory of its own.
                limit(libc::RLIMIT_FSIZE, self.disk);
                // Unlike RLIMIT_AS, it leaves out large files that are mapped.
                limit(libc::RLIMIT_DATA, self.memory);
            }
            if is_followed == 1 && !filter::install_first() {
                self.fail(b"its calls cannot be followed");
            }
            let mut words: Vec<*const libc::c_char> =
                self.words.iter().map(|word| word.as_ptr()).collect();
            words.push(std::ptr::null());
            if let [path, _, ..] = words[..] {
                // Where it fails, the shell says why.
                libc::execv(path, words.as_ptr());
            }
            let words = [c"sh".as_ptr(), c"-c".as_ptr(), self.command.as_ptr(), std::ptr::null()];
            libc::execv(c"/bin/sh".as_ptr(), words.as_ptr());
            self.fail(b"there is no /bin/sh");
        }
    }

    unsafe fn fail(&self, why: &[u8]) -> ! {
        // SAFETY: as for the caller.
        unsafe {
            libc::write(self.errors, why.as_ptr().cast(), why.len());
            libc::_exit(127)
        }
    }
}
