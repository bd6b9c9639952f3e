//! System calls without a C library, and the few structures of theirs that are needed.

use core::arch::asm;

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
pub const CREAT: u64 = 85;
pub const OPENAT: u64 = 257;
pub const SPLICE: u64 = 275;
pub const DUP3: u64 = 292;
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

/// The stack is out of use while a handler runs on it. Linux 6.12 and later put the frame's stack back while the
/// handler's is still in use, and would refuse another one.
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

/// What went wrong, as the kernel returns it.
pub const fn error(number: u64) -> u64 {
    number.wrapping_neg()
}

/// Whether a result is an error.
pub const fn is_error(result: u64) -> bool {
    result > u64::MAX - 4096
}

/// A system call.
#[inline(always)]
pub fn call(number: u64, a: [u64; 6]) -> u64 {
    let result;
    // SAFETY: each caller knows what its call does; the registers are those of the kernel's convention.
    unsafe {
        asm!("syscall", inlateout("rax") number => result, in("rdi") a[0], in("rsi") a[1], in("rdx") a[2],
            in("r10") a[3], in("r8") a[4], in("r9") a[5], out("rcx") _, out("r11") _, options(nostack));
    }
    result
}

pub fn call0(number: u64) -> u64 {
    call(number, [0; 6])
}

pub fn call2(number: u64, a: u64, b: u64) -> u64 {
    call(number, [a, b, 0, 0, 0, 0])
}

pub fn call3(number: u64, a: u64, b: u64, c: u64) -> u64 {
    call(number, [a, b, c, 0, 0, 0])
}

/// A path with a number in it, for the kernel.
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
    call2(KILL, thread, 0) == error(3) || matches!(state_of(thread), b'Z' | b'X')
}

/// What a process or thread does, as the kernel has it by a letter; 0 where that is not known.
pub fn state_of(thread: u64) -> u8 {
    let path = path(b"/proc/", thread, b"/stat");
    let file = call3(OPEN, path.as_ptr() as u64, 0, 0);
    if is_error(file) {
        return 0;
    }
    let mut text = [0u8; 256];
    let count = call3(READ, file, text.as_mut_ptr() as u64, 256);
    call2(CLOSE, file, 0);
    let text = if is_error(count) { &[] } else { text.get(..count as usize).unwrap_or_default() };
    // Behind the name, which may hold anything: the state.
    let state = text.iter().rposition(|byte| *byte == b')').and_then(|at| text.get(at + 2));
    state.copied().unwrap_or(0)
}

/// Memory of this process alone, or an error.
pub fn private_memory(at: u64, length: u64, protection: u64) -> u64 {
    let fixed = if at == 0 { 0 } else { MAP_FIXED_NOREPLACE };
    let flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | fixed;
    call(MMAP, [at, length, protection, flags, u64::MAX, 0])
}

/// Sleeps while `word` is `value`, for 100 ms at most.
pub fn sleep_while(word: *const u32, value: u32) {
    let timeout = [0u64, 100_000_000];
    call(FUTEX, [word as u64, 0, u64::from(value), timeout.as_ptr() as u64, 0, 0]);
}

/// Wakes who sleeps on `word`.
pub fn wake(word: *const u32) {
    call(FUTEX, [word as u64, 1, i32::MAX as u64, 0, 0, 0]);
}

/// Every thread of the process sees code as it is now, from its next instruction on.
pub fn synchronize() {
    const MEMBARRIER: u64 = 324;
    const SYNC_CORE: u64 = 1 << 5;
    const REGISTER: u64 = 1 << 6;
    if is_error(call2(MEMBARRIER, SYNC_CORE, 0)) {
        call2(MEMBARRIER, REGISTER, 0);
        call2(MEMBARRIER, SYNC_CORE, 0);
    }
}
