//! Which system calls come to us: a few always, others where an argument points into a recorded
//! file.

use super::sys;
use crate::layout::{OPENED_BY_RECORDER, RUNTIME};

#[repr(C)]
#[derive(Clone, Copy)]
struct Step {
    code: u16,
    yes: u8,
    no: u8,
    value: u32,
}

const LOAD: u16 = 0x20;
const AND: u16 = 0x54;
const EQUAL: u16 = 0x15;
const GREATER: u16 = 0x25;
const AT_LEAST: u16 = 0x35;
const RETURN: u16 = 0x06;
const ALLOW: u32 = 0x7fff_0000;
const TRAP: u32 = 0x0003_0000;
// `AUDIT_ARCH_X86_64`.
const X86_64: u32 = 0xc000_003e;

// In `struct seccomp_data`.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const POINTER_HIGH: u32 = 12;
const fn low(argument: u32) -> u32 {
    16 + 8 * argument
}
const fn high(argument: u32) -> u32 {
    low(argument) + 4
}

// Steps of a trap.
const TRAP_STEPS: u8 = 4;

struct Program {
    steps: [Step; 256],
    count: usize,
}

impl Program {
    const fn new() -> Self {
        let mut program =
            Self { steps: [Step { code: 0, yes: 0, no: 0, value: 0 }; 256], count: 0 };
        // A 32-bit program inherits the filter, but has other numbers and nothing of ours that
        // could answer.
        program.add(LOAD, ARCHITECTURE, 0, 0);
        program.add(EQUAL, X86_64, 1, 0);
        program.add(RETURN, ALLOW, 0, 0);
        program
    }

    const fn add(&mut self, code: u16, value: u32, yes: u8, no: u8) {
        self.steps[self.count] = Step { code, yes, no, value };
        self.count += 1;
    }

    // Begins what is done for one call: `steps`, and then a trap.
    const fn of(&mut self, number: u64, steps: u8) {
        self.add(EQUAL, number as u32, 0, steps + TRAP_STEPS);
    }

    // Ends it: such calls come to us, but for our own.
    const fn trap(&mut self) {
        self.allow_ours();
        self.add(RETURN, TRAP, 0, 0);
    }

    // Our own calls are let through.
    const fn allow_ours(&mut self) {
        self.add(LOAD, POINTER_HIGH, 0, 0);
        self.add(EQUAL, (RUNTIME >> 32) as u32, 0, 1);
        self.add(RETURN, ALLOW, 0, 0);
    }

    // For all threads of the process.
    fn install(&self) -> u64 {
        #[repr(C)]
        struct Filter {
            count: u16,
            steps: *const Step,
        }
        let filter = Filter { count: self.count as u16, steps: self.steps.as_ptr() };
        const ALL_THREADS: u64 = 1;
        // SAFETY: the kernel reads the filter and its steps. It changes no memory.
        unsafe { sys::call3(sys::SECCOMP, 1, ALL_THREADS, (&raw const filter) as u64) }
    }
}

// Calls that change mappings, signals, threads and programs, that make files durable, that give
// descriptors, and that change names.
const ALWAYS: [u64; 37] = [
    sys::MLOCKALL,
    sys::MPROTECT,
    sys::MUNMAP,
    sys::RT_SIGACTION,
    sys::RT_SIGPROCMASK,
    sys::MREMAP,
    sys::MSYNC,
    sys::FSYNC,
    sys::FDATASYNC,
    sys::SYNC,
    sys::SYNCFS,
    sys::SYNC_FILE_RANGE,
    sys::CLONE,
    sys::FORK,
    sys::VFORK,
    sys::EXECVE,
    sys::EXECVEAT,
    sys::EXIT,
    sys::RT_SIGSUSPEND,
    sys::SIGALTSTACK,
    sys::IO_SETUP,
    sys::IO_URING_SETUP,
    sys::CLONE3,
    sys::PKEY_MPROTECT,
    sys::DUP,
    sys::DUP2,
    sys::DUP3,
    sys::CREAT,
    sys::TRUNCATE,
    sys::OPENAT2,
    sys::RENAME,
    sys::RENAMEAT,
    sys::RENAMEAT2,
    sys::LINK,
    sys::LINKAT,
    sys::UNLINK,
    sys::UNLINKAT,
];

// Calls with lists of buffers.
const LISTS: [u64; 11] = [
    sys::RECVMMSG,
    sys::SENDMMSG,
    sys::PROCESS_VM_WRITEV,
    sys::READV,
    sys::WRITEV,
    sys::PREADV,
    sys::PWRITEV,
    sys::PREADV2,
    sys::PWRITEV2,
    sys::SENDMSG,
    sys::RECVMSG,
];

// Calls that write to a descriptor: which argument that is.
const TO_DESCRIPTOR: [(u64, u32); 10] = [
    (sys::WRITE, 0),
    (sys::PWRITE, 0),
    (sys::WRITEV, 0),
    (sys::PWRITEV, 0),
    (sys::PWRITEV2, 0),
    (sys::SENDFILE, 0),
    (sys::FTRUNCATE, 0),
    (sys::FALLOCATE, 0),
    (sys::SPLICE, 2),
    (sys::COPY_FILE_RANGE, 2),
];

/// The descriptor that a call writes to.
pub fn written(number: u64, a: [u64; 6]) -> Option<u64> {
    let (_, argument) = TO_DESCRIPTOR.iter().find(|(one, _)| *one == number)?;
    a.get(*argument as usize).copied()
}

/// The filter that every process has; children and what they execute keep it.
pub fn install_first() -> u64 {
    const SET_GS: u32 = 0x1001;
    const F_DUPFD: u32 = 0;
    const F_DUPFD_CLOEXEC: u32 = 1030;
    // `O_WRONLY`, `O_RDWR`, `O_TRUNC`.
    const TO_WRITE: u32 = 0o1003;
    let mut program = Program::new();
    program.add(LOAD, NUMBER, 0, 0);
    for number in ALWAYS {
        program.of(number, 0);
        program.trap();
    }
    // Another program's start maps our memory before our code is there.
    program.of(sys::MMAP, 4);
    program.add(LOAD, high(0), 0, 0);
    program.add(AND, 0xffff_ff00, 0, 0);
    program.add(EQUAL, (RUNTIME >> 32) as u32, 0, 1);
    program.add(RETURN, ALLOW, 0, 0);
    program.trap();
    program.of(sys::ARCH_PRCTL, 3);
    program.add(LOAD, low(0), 0, 0);
    program.add(EQUAL, SET_GS, 1, 0);
    program.add(RETURN, ALLOW, 0, 0);
    program.trap();
    program.of(sys::FCNTL, 4);
    program.add(LOAD, low(1), 0, 0);
    program.add(EQUAL, F_DUPFD, 2, 0);
    program.add(EQUAL, F_DUPFD_CLOEXEC, 1, 0);
    program.add(RETURN, ALLOW, 0, 0);
    program.trap();
    for (number, flags) in [(sys::OPEN, 1), (sys::OPENAT, 2)] {
        program.of(number, 6);
        // The recorder opens files in a process that is about to begin.
        program.add(LOAD, low(5), 0, 0);
        program.add(EQUAL, OPENED_BY_RECORDER as u32, 3, 0);
        program.add(LOAD, low(flags), 0, 0);
        program.add(AND, TO_WRITE, 0, 0);
        program.add(EQUAL, 0, 0, 1);
        program.add(RETURN, ALLOW, 0, 0);
        program.trap();
    }
    program.add(RETURN, ALLOW, 0, 0);
    program.install()
}

/// A filter for what points to a mapping.
pub fn install_for(start: u64, end: u64) -> u64 {
    let mut program = Program::new();
    let (first, last) = ((start >> 32) as u32, ((end - 1) >> 32) as u32);
    program.allow_ours();
    for argument in 0..6 {
        program.add(LOAD, high(argument), 0, 0);
        if first == last {
            program.add(EQUAL, first, 0, 4);
            program.add(LOAD, low(argument), 0, 0);
            program.add(AT_LEAST, start as u32, 0, 2);
            program.add(GREATER, (end - 1) as u32, 1, 0);
        } else {
            program.add(AT_LEAST, first, 0, 2);
            program.add(GREATER, last, 1, 0);
        }
        program.add(RETURN, TRAP, 0, 0);
    }
    program.add(RETURN, ALLOW, 0, 0);
    program.install()
}

/// A filter for calls with lists, any of which may point to a mapping.
pub fn install_for_lists() -> u64 {
    let mut program = Program::new();
    program.add(LOAD, NUMBER, 0, 0);
    for number in LISTS {
        program.of(number, 0);
        program.trap();
    }
    program.add(RETURN, ALLOW, 0, 0);
    program.install()
}

/// A filter for what writes to a descriptor.
pub fn install_for_descriptor(descriptor: u64) -> u64 {
    let mut program = Program::new();
    program.add(LOAD, NUMBER, 0, 0);
    for (number, argument) in TO_DESCRIPTOR {
        program.of(number, 3);
        program.add(LOAD, low(argument), 0, 0);
        program.add(EQUAL, descriptor as u32, 1, 0);
        program.add(RETURN, ALLOW, 0, 0);
        program.trap();
    }
    program.add(RETURN, ALLOW, 0, 0);
    program.install()
}
