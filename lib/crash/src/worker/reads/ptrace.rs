//! ptrace(2), as far as following what a command reads needs it.

// There is no safe wrapper among our libraries.
#![allow(unsafe_code)]

use std::io;

/// The registers of a stopped task.
pub(super) type Registers = libc::user_regs_struct;

/// A task, by its number.
pub(crate) type Task = i32;

/// A system call that passes this as its last argument is ours, and is not followed.
pub(super) const OURS: u64 = 0x7269_6e67_6665_6e63;

fn request(request: u32, task: Task, address: usize, data: usize) -> io::Result<i64> {
    // SAFETY: of the requests used here only `GETREGS`, `GETSIGINFO` and `GETEVENTMSG` write to our
    // memory, and to what they are given.
    match unsafe { libc::syscall(libc::SYS_ptrace, i64::from(request), task, address, data) } {
        -1 => Err(io::Error::last_os_error()),
        result => Ok(result),
    }
}

/// Follows a running process and all that it starts; they end with this process.
pub(crate) fn seize(process: Task) -> io::Result<()> {
    let options = libc::PTRACE_O_EXITKILL
        | libc::PTRACE_O_TRACESYSGOOD
        | libc::PTRACE_O_TRACESECCOMP
        | libc::PTRACE_O_TRACEEXEC
        | libc::PTRACE_O_TRACEFORK
        | libc::PTRACE_O_TRACEVFORK
        | libc::PTRACE_O_TRACECLONE;
    request(libc::PTRACE_SEIZE, process, 0, options as usize).map(drop)
}

/// Resumes a task, with a signal or 0.
pub(super) fn go_on(task: Task, signal: i32) -> io::Result<()> {
    request(libc::PTRACE_CONT, task, 0, signal as usize).map(drop)
}

/// Resumes it up to the end of the system call that it is about to make.
pub(super) fn finish_call(task: Task) -> io::Result<()> {
    request(libc::PTRACE_SYSCALL, task, 0, 0).map(drop)
}

/// Leaves it stopped until a signal has it continue.
pub(super) fn stay_stopped(task: Task) -> io::Result<()> {
    request(libc::PTRACE_LISTEN, task, 0, 0).map(drop)
}

pub(super) fn registers(task: Task) -> io::Result<Registers> {
    // SAFETY: all of its fields are numbers.
    let mut registers: Registers = unsafe { std::mem::zeroed() };
    request(libc::PTRACE_GETREGS, task, 0, &raw mut registers as usize)?;
    Ok(registers)
}

pub(super) fn set_registers(task: Task, registers: &Registers) -> io::Result<()> {
    request(libc::PTRACE_SETREGS, task, 0, std::ptr::from_ref(registers) as usize).map(drop)
}

/// What comes with an event: the number of a new task.
pub(super) fn message(task: Task) -> io::Result<Task> {
    let mut message: libc::c_ulong = 0;
    request(libc::PTRACE_GETEVENTMSG, task, 0, &raw mut message as usize)?;
    Ok(message as Task)
}

/// The address that a task with SIGSEGV has no access to; none if nothing is mapped there.
pub(super) fn refused(task: Task) -> io::Result<Option<u64>> {
    const SEGV_ACCERR: i32 = 2;
    // SAFETY: all of its fields are numbers and pointers that are not followed; a fault has an
    // address.
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        request(libc::PTRACE_GETSIGINFO, task, 0, &raw mut info as usize)?;
        Ok((info.si_code == SEGV_ACCERR).then(|| info.si_addr() as u64))
    }
}

/// Executes the next instruction. Signals that come first are sent again later.
///
/// Gives the signal that the instruction ended in: SIGTRAP where all is well.
pub(super) fn step(task: Task, later: &mut Vec<i32>) -> io::Result<i32> {
    resume(libc::PTRACE_SINGLESTEP, task, later)
}

/// The same for all instructions up to a breakpoint.
pub(super) fn run(task: Task, later: &mut Vec<i32>) -> io::Result<i32> {
    resume(libc::PTRACE_CONT, task, later)
}

fn resume(how: libc::c_uint, task: Task, later: &mut Vec<i32>) -> io::Result<i32> {
    loop {
        request(how, task, 0, 0)?;
        let mut status = 0;
        // SAFETY: `status` is ours.
        if unsafe { libc::waitpid(task, &raw mut status, libc::__WALL) } < 0 {
            return Err(io::Error::last_os_error());
        }
        if !libc::WIFSTOPPED(status) {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        match (status >> 16, libc::WSTOPSIG(status)) {
            (0, signal @ (libc::SIGTRAP | libc::SIGSEGV | libc::SIGBUS | libc::SIGILL)) => {
                return Ok(signal);
            }
            (0, signal) => later.push(signal),
            _ => {}
        }
    }
}

/// Has a task make a system call in the place of its next instruction; `at` is an instruction that
/// makes one.
pub(super) fn call(
    task: Task,
    registers: &Registers,
    at: u64,
    number: i64,
    [rdi, rsi, rdx]: [u64; 3],
    later: &mut Vec<i32>,
) -> io::Result<u64> {
    // So that the kernel does not restart a call that was interrupted.
    let own = Registers {
        rip: at,
        rax: number as u64,
        orig_rax: u64::MAX,
        rdi,
        rsi,
        rdx,
        r9: OURS,
        ..*registers
    };
    set_registers(task, &own)?;
    step(task, later)?;
    let result = self::registers(task)?.rax;
    set_registers(task, &Registers { orig_rax: u64::MAX, ..*registers })?;
    Ok(result)
}

/// Sends a signal to a task.
pub(super) fn send(task: Task, signal: i32) {
    // SAFETY: a system call on numbers.
    unsafe { libc::syscall(libc::SYS_tkill, task, signal) };
}
