//! Processes as their parent and tracer sees them: started, stopped, made to call the system, let
//! go.

// `ptrace` and `waitpid` have no safe wrapper among our libraries.
#![allow(unsafe_code)]

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::AtomicI32;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::copy::Copies;
use super::rights;

/// What became of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// It exited with this code.
    Exited(i32),
    /// A signal ended it.
    Killed(i32),
    /// It has replaced its program, and has executed nothing of the new one.
    Executed,
    /// It was stopped by our request, or has begun under our eyes.
    Interrupted,
    /// A signal stops it, with all of its threads.
    Halted,
    /// It has made this process or thread, which begins under our eyes, too.
    Made(i32),
    /// A signal is pending for it.
    Signal(i32),
}

/// A thread of a process that runs unrecorded.
#[derive(Debug, Clone, Copy)]
pub(super) struct Unrecorded {
    /// Whether it has our filter of system calls, which it inherits.
    pub(super) has_filter: bool,
    /// Whether it has not run yet: it begins with a stop that no signal is behind.
    pub(super) is_new: bool,
}

fn check(result: i64) -> io::Result<i64> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

// Libraries do not agree on the type of a request.
fn ptrace(request: i64, process: i32, address: usize, data: usize) -> io::Result<i64> {
    // SAFETY: no request used here writes to our memory, but `GETREGS` and `GETEVENTMSG`, to what
    // they are given.
    check(unsafe { libc::syscall(libc::SYS_ptrace, request, process, address, data) })
}

/// Starts a command that stops before its program's first instruction. Its orphans become our
/// children. Its standard output is ours where none is given.
pub(super) fn start(
    command: &[OsString],
    copies: Arc<Copies>,
    output: Option<OwnedFd>,
) -> io::Result<Child> {
    rustix::process::set_child_subreaper(rustix::process::Pid::from_raw(1))?;
    let mut process = Command::new(&command[0]);
    process.args(&command[1..]);
    if let Some(output) = output {
        process.stdout(output);
    }
    rights::clean(&mut process);
    let recorder = std::process::id();
    // SAFETY: only system calls between `fork` and `exec`.
    unsafe {
        process.pre_exec(move || {
            // Without us, no process would answer.
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0);
            if libc::getppid() as u32 != recorder {
                libc::_exit(127);
            }
            rights::mount_over(&copies)?;
            ptrace(libc::PTRACE_TRACEME as i64, 0, 0, 0).map(drop)
        });
    }
    process.spawn()
}

/// How a run ended, and what it took.
#[derive(Debug, Clone, Copy)]
pub struct Ran {
    /// How it ended.
    pub status: ExitStatus,
    /// The processors' time of all of its processes that were waited for, in programs and in the
    /// kernel.
    pub cpu: Duration,
}

/// Runs a command that finds copies in the places of files, to its end.
pub(super) fn run(mut command: Command, copies: &Arc<Copies>) -> io::Result<Ran> {
    let copies = Arc::clone(copies);
    if !copies.is_empty() && !rights::may_mount() {
        rights::with_own_users(&mut command);
    }
    rights::clean(&mut command);
    // SAFETY: only system calls between `fork` and `exec`.
    unsafe {
        command.pre_exec(move || {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0);
            rights::mount_over(&copies)
        });
    }
    let child = command.spawn()?;
    let mut status = 0;
    // SAFETY: all of its fields are numbers.
    let mut times: libc::rusage = unsafe { std::mem::zeroed() };
    loop {
        // SAFETY: both are ours.
        if unsafe { libc::wait4(child.id() as i32, &raw mut status, 0, &raw mut times) } >= 0 {
            break;
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    let time = |of: libc::timeval| Duration::new(of.tv_sec as u64, of.tv_usec as u32 * 1000);
    let cpu = time(times.ru_utime) + time(times.ru_stime);
    Ok(Ran { status: ExitStatus::from_raw(status), cpu })
}

/// What a child or a tracee has become since the last time. Of other processes, nothing is told.
pub(super) fn change(process: i32) -> Option<Change> {
    let mut status = 0;
    // SAFETY: `status` is ours.
    if unsafe { libc::waitpid(process, &mut status, libc::WNOHANG | libc::__WALL) } <= 0 {
        return None;
    }
    let change = if libc::WIFEXITED(status) {
        Change::Exited(libc::WEXITSTATUS(status))
    } else if libc::WIFSIGNALED(status) {
        Change::Killed(libc::WTERMSIG(status))
    } else {
        match status >> 16 {
            libc::PTRACE_EVENT_EXEC => Change::Executed,
            libc::PTRACE_EVENT_STOP if libc::WSTOPSIG(status) == libc::SIGTRAP => {
                Change::Interrupted
            }
            libc::PTRACE_EVENT_STOP => Change::Halted,
            libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK | libc::PTRACE_EVENT_CLONE => {
                Change::Made(message(process))
            }
            _ => Change::Signal(libc::WSTOPSIG(status)),
        }
    };
    Some(change)
}

/// Has a running thread stop where it executes another program.
pub(super) fn watch_for_exec(thread: i32) -> io::Result<()> {
    ptrace(libc::PTRACE_SEIZE as i64, thread, 0, libc::PTRACE_O_TRACEEXEC as usize).map(drop)
}

/// Has a stopped process stop where it executes another program, and whatever it starts, too. It
/// ends with us.
pub(super) fn follow(process: i32) -> io::Result<()> {
    let options = libc::PTRACE_O_EXITKILL
        | libc::PTRACE_O_TRACEEXEC
        | libc::PTRACE_O_TRACEFORK
        | libc::PTRACE_O_TRACEVFORK
        | libc::PTRACE_O_TRACECLONE;
    ptrace(libc::PTRACE_SETOPTIONS as i64, process, 0, options as usize).map(drop)
}

// What the kernel adds to a stop: the number of a new process.
fn message(process: i32) -> i32 {
    let mut message: libc::c_ulong = 0;
    // It fails only where the process was killed meanwhile.
    let _ = ptrace(libc::PTRACE_GETEVENTMSG as i64, process, 0, &raw mut message as usize);
    message as i32
}

/// Leaves a process halted, until a signal has it continue.
pub(super) fn stay_halted(process: i32) -> io::Result<()> {
    ptrace(libc::PTRACE_LISTEN as i64, process, 0, 0).map(drop)
}

/// Stops a watched thread.
pub(super) fn interrupt(thread: i32) -> io::Result<()> {
    ptrace(libc::PTRACE_INTERRUPT as i64, thread, 0, 0).map(drop)
}

/// Takes a process that was stopped within `execve` to the end of that call: before, the call's
/// result would take the place of what is put into its registers.
pub(super) fn finish_exec(process: i32) -> io::Result<()> {
    ptrace(libc::PTRACE_SYSCALL as i64, process, 0, 0)?;
    wait_for_stop(process)
}

fn wait_for_stop(process: i32) -> io::Result<()> {
    let mut status = 0;
    // SAFETY: `status` is ours.
    check(unsafe { libc::waitpid(process, &mut status, libc::__WALL) }.into())?;
    if libc::WIFSTOPPED(status) {
        Ok(())
    } else {
        Err(io::Error::other("it ended while it was set up"))
    }
}

/// Resumes a stopped process, with a signal or 0.
pub(super) fn go_on(process: i32, signal: i32) -> io::Result<()> {
    ptrace(libc::PTRACE_CONT as i64, process, 0, signal as usize).map(drop)
}

/// Resumes a stopped process, and watches it no more.
pub(super) fn let_go(process: i32) -> io::Result<()> {
    ptrace(libc::PTRACE_DETACH as i64, process, 0, 0).map(drop)
}

/// The system's number of the calling thread.
pub(super) fn this_thread() -> i32 {
    rustix::thread::gettid().as_raw_nonzero().get()
}

/// Ends a process.
pub(super) fn kill(process: i32) {
    if let Some(process) = rustix::process::Pid::from_raw(process) {
        let _ = rustix::process::kill_process(process, rustix::process::Signal::KILL);
    }
}

/// Whether a process is there and has not ended.
pub(super) fn is_alive(process: i32) -> bool {
    let Ok(text) = std::fs::read_to_string(format!("/proc/{process}/stat")) else { return false };
    // Behind the name, which may hold anything.
    text.rsplit_once(')')
        .is_some_and(|(_, rest)| !matches!(rest.trim_start().chars().next(), Some('Z' | 'X')))
}

/// The processor's registers.
pub(super) type Registers = libc::user_regs_struct;

/// Whether they are those of a 32-bit program: its code segment is Linux's `__USER32_CS`.
pub(super) fn are_of_32_bits(registers: &Registers) -> bool {
    registers.cs == 0x23
}

/// Those of a stopped process.
pub(super) fn registers(process: i32) -> io::Result<Registers> {
    // SAFETY: all of its fields are numbers.
    let mut registers: Registers = unsafe { std::mem::zeroed() };
    ptrace(libc::PTRACE_GETREGS as i64, process, 0, &raw mut registers as usize)?;
    Ok(registers)
}

/// Sets them.
pub(super) fn set_registers(process: i32, registers: &Registers) -> io::Result<()> {
    ptrace(libc::PTRACE_SETREGS as i64, process, 0, std::ptr::from_ref(registers) as usize)
        .map(drop)
}

/// Has a process that is stopped at a program's first instruction make a system call in its place.
pub(super) fn call(
    process: i32,
    memory: &File,
    number: i64,
    arguments: [u64; 6],
) -> io::Result<u64> {
    const SYSCALL: [u8; 2] = [0x0f, 0x05];
    let saved = registers(process)?;
    let mut bytes = [0; 2];
    memory.read_exact_at(&mut bytes, saved.rip)?;
    memory.write_all_at(&SYSCALL, saved.rip)?;
    let [rdi, rsi, rdx, r10, r8, r9] = arguments;
    // Not one that the kernel thinks of restarting.
    let regs =
        Registers { rax: number as u64, orig_rax: u64::MAX, rdi, rsi, rdx, r10, r8, r9, ..saved };
    set_registers(process, &regs)?;
    ptrace(libc::PTRACE_SINGLESTEP as i64, process, 0, 0)?;
    wait_for_stop(process)?;
    let result = registers(process)?.rax;
    memory.write_all_at(&bytes, saved.rip)?;
    set_registers(process, &saved)?;
    if result > u64::MAX - 4096 {
        return Err(io::Error::from_raw_os_error(result.wrapping_neg() as i32));
    }
    Ok(result)
}

/// The memory of a process.
pub(super) fn memory(process: i32) -> io::Result<File> {
    File::options().read(true).write(true).open(format!("/proc/{process}/mem"))
}

/// While this lives, an interrupt from the keyboard is the program's alone.
pub(super) struct InterruptsIgnored([(i32, libc::sighandler_t); 2]);

extern "C" fn nothing(_: i32) {}

// The signal that asks the recorder to end; 0 for none.
static ASKED_TO_END: AtomicI32 = AtomicI32::new(0);

extern "C" fn ask_to_end(signal: i32) {
    ASKED_TO_END.store(signal, Relaxed);
}

/// While this lives, SIGTERM and SIGHUP ask the recorder to end, which keeps what it has.
pub(super) struct Endings([(i32, libc::sighandler_t); 2]);

impl Endings {
    pub(super) fn new() -> Self {
        ASKED_TO_END.store(0, Relaxed);
        let handler = ask_to_end as *const () as libc::sighandler_t;
        Self([libc::SIGTERM, libc::SIGHUP].map(|signal| {
            // SAFETY: the handler stores a number and does nothing else.
            let was = unsafe { libc::signal(signal, handler) };
            if was == libc::SIG_IGN {
                // Such as by `nohup`.
                // SAFETY: what was there before.
                unsafe { libc::signal(signal, was) };
            }
            (signal, was)
        }))
    }

    /// The name of the signal that came, if one did.
    pub(super) fn asked(&self) -> Option<&'static str> {
        match ASKED_TO_END.load(Relaxed) {
            libc::SIGTERM => Some("SIGTERM"),
            libc::SIGHUP => Some("SIGHUP"),
            _ => None,
        }
    }
}

impl Drop for Endings {
    fn drop(&mut self) {
        for (signal, was) in self.0 {
            // SAFETY: what was there before.
            unsafe { libc::signal(signal, was) };
        }
    }
}

impl InterruptsIgnored {
    pub(super) fn new() -> Self {
        let handler = nothing as *const () as libc::sighandler_t;
        // SAFETY: a handler that does nothing; unlike a signal that is ignored, the program does
        // not inherit it.
        Self(
            [libc::SIGINT, libc::SIGQUIT]
                .map(|signal| (signal, unsafe { libc::signal(signal, handler) })),
        )
    }
}

impl Drop for InterruptsIgnored {
    fn drop(&mut self) {
        for (signal, was) in self.0 {
            // SAFETY: what was there before.
            unsafe { libc::signal(signal, was) };
        }
    }
}
