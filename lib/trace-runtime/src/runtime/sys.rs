//! System calls without a C library, and the few structures of theirs that are needed.

use core::arch::asm;
use core::sync::atomic::AtomicU32;

pub const READ: u64 = 0;
pub const WRITE: u64 = 1;
pub const OPEN: u64 = 2;
pub const CLOSE: u64 = 3;
pub const STAT: u64 = 4;
pub const FSTAT: u64 = 5;
pub const LSEEK: u64 = 8;
pub const DUP: u64 = 32;
pub const DUP2: u64 = 33;
pub const SENDFILE: u64 = 40;
pub const FCNTL: u64 = 72;
pub const TRUNCATE: u64 = 76;
pub const RENAME: u64 = 82;
pub const CREAT: u64 = 85;
pub const LINK: u64 = 86;
pub const UNLINK: u64 = 87;
pub const OPENAT: u64 = 257;
pub const UNLINKAT: u64 = 263;
pub const RENAMEAT: u64 = 264;
pub const LINKAT: u64 = 265;
pub const SPLICE: u64 = 275;
pub const DUP3: u64 = 292;
pub const RENAMEAT2: u64 = 316;
pub const COPY_FILE_RANGE: u64 = 326;
pub const RECVMMSG: u64 = 299;
pub const SENDMMSG: u64 = 307;
pub const PROCESS_VM_WRITEV: u64 = 311;
pub const OPENAT2: u64 = 437;
pub const MMAP: u64 = 9;
pub const MPROTECT: u64 = 10;
pub const MUNMAP: u64 = 11;
pub const RT_SIGACTION: u64 = 13;
pub const RT_SIGPROCMASK: u64 = 14;
pub const PREAD: u64 = 17;
pub const PWRITE: u64 = 18;
pub const READV: u64 = 19;
pub const WRITEV: u64 = 20;
pub const MREMAP: u64 = 25;
pub const NANOSLEEP: u64 = 35;
pub const MSYNC: u64 = 26;
pub const MADVISE: u64 = 28;
pub const FSYNC: u64 = 74;
pub const FDATASYNC: u64 = 75;
pub const SYNC: u64 = 162;
pub const SYNCFS: u64 = 306;
pub const SYNC_FILE_RANGE: u64 = 277;
pub const GETPID: u64 = 39;
pub const RECVFROM: u64 = 45;
pub const SENDMSG: u64 = 46;
pub const RECVMSG: u64 = 47;
pub const CLONE: u64 = 56;
pub const FORK: u64 = 57;
pub const VFORK: u64 = 58;
pub const EXECVE: u64 = 59;
pub const EXIT: u64 = 60;
pub const KILL: u64 = 62;
pub const FTRUNCATE: u64 = 77;
pub const GETCWD: u64 = 79;
pub const READLINK: u64 = 89;
pub const SIGALTSTACK: u64 = 131;
pub const RT_SIGSUSPEND: u64 = 130;
pub const RT_TGSIGQUEUEINFO: u64 = 297;
pub const MLOCKALL: u64 = 151;
pub const ARCH_PRCTL: u64 = 158;
pub const PRCTL: u64 = 157;
pub const GETTID: u64 = 186;
pub const FUTEX: u64 = 202;
pub const IO_SETUP: u64 = 206;
pub const GETDENTS64: u64 = 217;
pub const READLINKAT: u64 = 267;
pub const PREADV: u64 = 295;
pub const PWRITEV: u64 = 296;
pub const SCHED_YIELD: u64 = 24;
pub const SECCOMP: u64 = 317;
pub const GETRANDOM: u64 = 318;
pub const EXECVEAT: u64 = 322;
pub const PREADV2: u64 = 327;
pub const PWRITEV2: u64 = 328;
pub const PKEY_MPROTECT: u64 = 329;
pub const IO_URING_SETUP: u64 = 425;
pub const CLONE3: u64 = 435;
pub const FALLOCATE: u64 = 285;
pub const MREMAP_MAYMOVE: u64 = 1;
pub const MREMAP_FIXED: u64 = 2;

pub const PROT_READ: u64 = 1;
pub const PROT_WRITE: u64 = 2;
pub const PROT_EXEC: u64 = 4;
pub const MAP_SHARED: u64 = 1;
pub const MAP_TYPE: u64 = 0xf;
pub const MAP_SHARED_VALIDATE: u64 = 3;
pub const MAP_PRIVATE: u64 = 2;
pub const MAP_FIXED: u64 = 0x10;
pub const MAP_32BIT: u64 = 0x40;
pub const MAP_ANONYMOUS: u64 = 0x20;
pub const MAP_NORESERVE: u64 = 0x4000;
pub const MAP_FIXED_NOREPLACE: u64 = 0x10_0000;

pub const EPERM: u64 = 1;
pub const ENOMEM: u64 = 12;
pub const EFAULT: u64 = 14;
pub const EBUSY: u64 = 16;
pub const EXDEV: u64 = 18;
pub const EINVAL: u64 = 22;
pub const ENOSYS: u64 = 38;

pub const SIGILL: u64 = 4;
pub const SIGTRAP: u64 = 5;
pub const SIGBUS: u64 = 7;
pub const SIGFPE: u64 = 8;
pub const SIGKILL: u64 = 9;
pub const SIGSEGV: u64 = 11;
pub const SIGCONT: u64 = 18;
pub const SIGSTOP: u64 = 19;
pub const SIGSYS: u64 = 31;

/// The stack is out of use while a handler runs on it. Linux 6.12 and later put the frame's stack
/// back while the handler's is still in use, and would refuse another one.
pub const SS_AUTODISARM: u64 = 1 << 31;
pub const SS_DISABLE: u64 = 2;
pub const SS_ONSTACK: u64 = 1;

pub const SA_SIGINFO: u64 = 4;
pub const SA_NODEFER: u64 = 0x4000_0000;
pub const SA_RESETHAND: u64 = 0x8000_0000;
pub const SA_ONSTACK: u64 = 0x0800_0000;
pub const SA_RESTORER: u64 = 0x0400_0000;

/// `struct sigaction` as the kernel has it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Action {
    pub handler: u64,
    pub flags: u64,
    pub restorer: u64,
    pub mask: u64,
}

impl Action {
    /// What the kernel does where nothing else is said.
    pub const DEFAULT: Self = Self { handler: 0, flags: 0, restorer: 0, mask: 0 };
}

/// An error, as the kernel returns it.
pub const fn error(number: u64) -> u64 {
    number.wrapping_neg()
}

/// Whether a result is an error.
pub const fn is_error(result: u64) -> bool {
    result > u64::MAX - 4096
}

/// A system call.
///
/// # Safety
/// Memory that the kernel writes to for this call holds nothing that Rust code relies on, or may be
/// changed there. Mappings that it changes or removes, and what it changes of the thread and of the
/// process, are not in use in another way.
#[inline(always)]
pub unsafe fn call(number: u64, a: [u64; 6]) -> u64 {
    let result;
    // SAFETY: the registers are those of the kernel's convention; its effects are the caller's to
    // answer for.
    unsafe {
        asm!("syscall", inlateout("rax") number => result, in("rdi") a[0], in("rsi") a[1],
            in("rdx") a[2], in("r10") a[3], in("r8") a[4], in("r9") a[5], out("rcx") _,
            out("r11") _, options(nostack));
    }
    result
}

/// A system call with two arguments.
///
/// # Safety
/// As for [`call`].
pub unsafe fn call2(number: u64, a: u64, b: u64) -> u64 {
    // SAFETY: the caller's.
    unsafe { call(number, [a, b, 0, 0, 0, 0]) }
}

/// A system call with three arguments.
///
/// # Safety
/// As for [`call`].
pub unsafe fn call3(number: u64, a: u64, b: u64, c: u64) -> u64 {
    // SAFETY: the caller's.
    unsafe { call(number, [a, b, c, 0, 0, 0]) }
}

/// The number of this process.
pub fn process_id() -> u64 {
    // SAFETY: the call has no arguments and changes nothing.
    unsafe { call(GETPID, [0; 6]) }
}

/// The number of this thread.
pub fn thread_id() -> u64 {
    // SAFETY: the call has no arguments and changes nothing.
    unsafe { call(GETTID, [0; 6]) }
}

/// Lets other threads run.
pub fn yield_now() {
    // SAFETY: the call has no arguments and changes nothing.
    unsafe { call(SCHED_YIELD, [0; 6]) };
}

/// Sleeps for some nanoseconds, less than a second.
pub fn sleep(nanoseconds: u64) {
    let time = [0, nanoseconds];
    // SAFETY: the kernel reads the time, and is given no place to write to.
    unsafe { call2(NANOSLEEP, time.as_ptr() as u64, 0) };
}

/// Sends a signal to a process.
pub fn kill(process: u64, signal: u64) -> u64 {
    // SAFETY: the call accesses no memory. What a signal does, it does at a place where any other
    // process might have sent it as well.
    unsafe { call2(KILL, process, signal) }
}

/// Ends this process as a kill does.
pub fn end() -> ! {
    loop {
        kill(process_id(), SIGKILL);
    }
}

/// Sends a signal to this thread, with what the kernel shall tell of it (`siginfo_t`).
pub fn queue(signal: u64, info: &[u64; 16]) {
    let arguments = [process_id(), thread_id(), signal, info.as_ptr() as u64, 0, 0];
    // SAFETY: the kernel reads 128 bytes of what it is told. The signal is one that the thread has
    // got before.
    unsafe { call(RT_TGSIGQUEUEINFO, arguments) };
}

/// Sets the thread's mask of signals, and returns the one of before.
pub fn set_mask(mask: u64) -> u64 {
    const SET: u64 = 2;
    let mut old = 0u64;
    let (new, before) = (&raw const mask as u64, &raw mut old as u64);
    // SAFETY: the kernel reads the one mask and writes the other, of 8 bytes each. When signals
    // come is no matter of memory.
    unsafe { call(RT_SIGPROCMASK, [SET, new, before, 8, 0, 0]) };
    old
}

/// Opens the file at a path that ends in a zero, or returns an error.
pub fn open(path: &[u8; 64], flags: u64) -> u64 {
    // SAFETY: the kernel reads the path, which ends within these bytes: see `path`.
    unsafe { call3(OPEN, path.as_ptr() as u64, flags, 0) }
}

/// Closes a descriptor that [`open`] has returned.
pub fn close(descriptor: u64) {
    // SAFETY: the call accesses no memory.
    unsafe { call2(CLOSE, descriptor, 0) };
}

/// Reads what is at an offset of a file: how many bytes, or an error.
pub fn read_at(descriptor: u64, bytes: &mut [u8], offset: u64) -> u64 {
    let (at, length) = (bytes.as_mut_ptr() as u64, bytes.len() as u64);
    // SAFETY: the kernel writes to these bytes alone.
    unsafe { call(PREAD, [descriptor, at, length, offset, 0, 0]) }
}

/// Where in its file a descriptor is.
pub fn position(descriptor: u64) -> u64 {
    const CURRENT: u64 = 1;
    // SAFETY: the call accesses no memory, and moves by nothing.
    unsafe { call3(LSEEK, descriptor, 0, CURRENT) }
}

/// The flags of a descriptor's file (`F_GETFL`).
pub fn flags(descriptor: u64) -> u64 {
    const F_GETFL: u64 = 3;
    // SAFETY: the call accesses no memory and changes nothing.
    unsafe { call2(FCNTL, descriptor, F_GETFL) }
}

/// What [`STAT`] tells of a path's address, or [`FSTAT`] of a descriptor: `struct stat`.
pub fn status(number: u64, of: u64) -> Option<[u64; 18]> {
    if !matches!(number, STAT | FSTAT) {
        return None;
    }
    let mut status = [0u64; 18];
    // SAFETY: the kernel writes 144 bytes there. It reads a path from wherever it is, and says so
    // where it cannot.
    let result = unsafe { call2(number, of, status.as_mut_ptr() as u64) };
    (!is_error(result)).then_some(status)
}

/// Where `fs` begins.
pub fn fs_base() -> u64 {
    const GET_FS: u64 = 0x1003;
    let mut base = 0u64;
    // SAFETY: the kernel writes these 8 bytes.
    unsafe { call2(ARCH_PRCTL, GET_FS, &raw mut base as u64) };
    base
}

/// A path with a number in it, for the kernel. It ends in a zero.
pub fn path(before: &[u8], number: u64, after: &[u8]) -> [u8; 64] {
    let mut path = [0u8; 64];
    let mut digits = [0u8; 20];
    let mut count = 0;
    let mut rest = number;
    while count == 0 || rest > 0 {
        digits[count] = b'0' + (rest % 10) as u8;
        rest /= 10;
        count += 1;
    }
    let digits = digits.iter().take(count).rev();
    // The last byte stays 0.
    for (to, from) in path.iter_mut().take(63).zip(before.iter().chain(digits).chain(after)) {
        *to = *from;
    }
    path
}

/// Whether a process or thread has ended, though its parent may not have looked yet.
pub fn has_ended(thread: u64) -> bool {
    const ESRCH: u64 = 3;
    kill(thread, 0) == error(ESRCH) || matches!(state_of(thread), b'Z' | b'X')
}

/// What a process or thread does, as the kernel has it by a letter; 0 where that is not known.
pub fn state_of(thread: u64) -> u8 {
    let file = open(&path(b"/proc/", thread, b"/stat"), 0);
    if is_error(file) {
        return 0;
    }
    let mut text = [0u8; 256];
    let count = read_at(file, &mut text, 0);
    close(file);
    let text = if is_error(count) { &[] } else { text.get(..count as usize).unwrap_or_default() };
    // Behind the name, which may hold anything: the state.
    let state = text.iter().rposition(|byte| *byte == b')').and_then(|at| text.get(at + 2));
    state.copied().unwrap_or(0)
}

/// New memory of this process alone: its address, or an error. It replaces nothing.
pub fn private_memory(at: u64, length: u64, protection: u64) -> u64 {
    let fixed = if at == 0 { 0 } else { MAP_FIXED_NOREPLACE };
    let flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | fixed;
    // SAFETY: the kernel maps it where nothing else is.
    unsafe { call(MMAP, [at, length, protection, flags, u64::MAX, 0]) }
}

/// Removes mappings.
///
/// # Safety
/// Nothing in that range is used any more.
pub unsafe fn unmap(at: u64, length: u64) {
    // SAFETY: the caller's.
    unsafe { call2(MUNMAP, at, length) };
}

/// What this process executes gets no more privileges (`PR_SET_NO_NEW_PRIVS`), which a filter
/// needs.
pub fn give_up_privileges() {
    const NO_NEW_PRIVILEGES: u64 = 38;
    // SAFETY: the call accesses no memory.
    unsafe { call(PRCTL, [NO_NEW_PRIVILEGES, 1, 0, 0, 0, 0]) };
}

/// Leaves memory out of a dump of the program's core.
pub fn leave_out_of_dumps(at: u64, length: u64) {
    const DONT_DUMP: u64 = 16;
    // SAFETY: this advice changes nothing of what is in memory.
    unsafe { call3(MADVISE, at, length, DONT_DUMP) };
}

/// Sleeps while `word` is `value`, for 100 ms at most.
pub fn sleep_while(word: &AtomicU32, value: u32) {
    const WAIT: u64 = 0;
    let timeout = [0u64, 100_000_000];
    let (word, timeout) = (word.as_ptr() as u64, timeout.as_ptr() as u64);
    // SAFETY: the kernel reads the word and the time.
    unsafe { call(FUTEX, [word, WAIT, u64::from(value), timeout, 0, 0]) };
}

/// Wakes what sleeps on `word`.
pub fn wake(word: &AtomicU32) {
    const WAKE: u64 = 1;
    // SAFETY: the kernel takes the word's address alone.
    unsafe { call(FUTEX, [word.as_ptr() as u64, WAKE, i32::MAX as u64, 0, 0, 0]) };
}

/// Every thread of the process sees code as it is now, from its next instruction on.
pub fn synchronize() {
    const MEMBARRIER: u64 = 324;
    const SYNC_CORE: u64 = 1 << 5;
    const REGISTER: u64 = 1 << 6;
    // SAFETY: the call accesses no memory.
    let barrier = |command: u64| unsafe { call2(MEMBARRIER, command, 0) };
    if is_error(barrier(SYNC_CORE)) {
        barrier(REGISTER);
        barrier(SYNC_CORE);
    }
}
