//! The seccomp filters of a command: which system calls stop it for its tracer. At first these are
//! the calls that may read or map files. Once it has mapped a recorded file, a second filter adds
//! those that change mappings or may be given an address.

// Filters are installed by a system call that has no safe wrapper.
#![allow(unsafe_code)]

use super::ptrace::OURS;

// Steps of a filter, and where things are in `struct seccomp_data`.
const LOAD: u16 = 0x20;
const EQUAL: u16 = 0x15;
const RETURN: u16 = 0x06;
// `AUDIT_ARCH_X86_64`.
const X86_64: u32 = 0xc000_003e;
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const DESCRIPTOR: u32 = 16 + 8 * 4;
const LAST: u32 = 16 + 8 * 5;

// Calls that read by way of a descriptor.
const READING: [i64; 13] = [
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_pread64,
    libc::SYS_preadv,
    libc::SYS_preadv2,
    libc::SYS_sendfile,
    libc::SYS_splice,
    libc::SYS_copy_file_range,
    // Where the holes of a file are.
    libc::SYS_lseek,
    libc::SYS_ioctl,
    libc::SYS_io_setup,
    libc::SYS_io_uring_setup,
    libc::SYS_process_vm_readv,
];

// Calls that get no address of the program's data.
const HARMLESS: [i64; 23] = [
    libc::SYS_close,
    libc::SYS_brk,
    libc::SYS_rt_sigreturn,
    libc::SYS_msync,
    libc::SYS_madvise,
    libc::SYS_sched_yield,
    libc::SYS_dup,
    libc::SYS_dup2,
    libc::SYS_dup3,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_getppid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_ftruncate,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_fork,
    libc::SYS_vfork,
];

type Step = libc::sock_filter;

fn step(code: u16, value: u32, yes: usize, no: usize) -> Step {
    Step { code, jt: yes as u8, jf: no as u8, k: value }
}

// Our own calls are allowed. A 32-bit program stops at every call.
fn beginning() -> Vec<Step> {
    vec![
        step(LOAD, ARCHITECTURE, 0, 0),
        step(EQUAL, X86_64, 1, 0),
        step(RETURN, libc::SECCOMP_RET_TRACE, 0, 0),
        step(LOAD, LAST, 0, 0),
        step(EQUAL, OURS as u32, 0, 3),
        step(LOAD, LAST + 4, 0, 0),
        step(EQUAL, (OURS >> 32) as u32, 0, 1),
        step(RETURN, libc::SECCOMP_RET_ALLOW, 0, 0),
        step(LOAD, NUMBER, 0, 0),
    ]
}

// `then` for any of these calls.
fn any(numbers: &[i64], then: u32) -> Vec<Step> {
    let count = numbers.len();
    let mut steps: Vec<Step> = numbers
        .iter()
        .enumerate()
        .map(|(at, number)| step(EQUAL, *number as u32, count - at, 0))
        .collect();
    steps.push(step(EQUAL, u32::MAX, 0, 1));
    steps.push(step(RETURN, then, 0, 0));
    steps
}

/// For a program that has not mapped a recorded file.
fn first() -> Vec<Step> {
    let mut steps = beginning();
    steps.extend(any(&READING, libc::SECCOMP_RET_TRACE));
    steps.push(step(EQUAL, libc::SYS_mmap as u32, 0, 3));
    // Memory of no file has -1 as its descriptor.
    steps.push(step(LOAD, DESCRIPTOR, 0, 0));
    steps.push(step(EQUAL, u32::MAX, 1, 0));
    steps.push(step(RETURN, libc::SECCOMP_RET_TRACE, 0, 0));
    steps.push(step(RETURN, libc::SECCOMP_RET_ALLOW, 0, 0));
    steps
}

/// For a program that has.
pub(super) fn second() -> Vec<u8> {
    let mut steps = beginning();
    steps.extend(any(&HARMLESS, libc::SECCOMP_RET_ALLOW));
    steps.push(step(RETURN, libc::SECCOMP_RET_TRACE, 0, 0));
    let bytes = |step: &Step| {
        let [low, high] = step.code.to_le_bytes();
        let value = step.k.to_le_bytes();
        [low, high, step.jt, step.jf, value[0], value[1], value[2], value[3]]
    };
    steps.iter().flat_map(bytes).collect()
}

/// Installs the first filter in the calling process; whether that worked.
pub(crate) fn install_first() -> bool {
    let mut steps = first();
    let filter = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
    // SAFETY: the kernel reads the filter, which is ours.
    unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::syscall(libc::SYS_seccomp, 1, 0, &raw const filter) == 0
    }
}
