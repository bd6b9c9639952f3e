//! Which system calls come to us: a few always, others where an argument points into a recorded file.

use crate::layout::RUNTIME;
use crate::sys;

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

// In `struct seccomp_data`.
const NUMBER: u32 = 0;
const POINTER_HIGH: u32 = 12;
const fn low(argument: u32) -> u32 {
    16 + 8 * argument
}
const fn high(argument: u32) -> u32 {
    low(argument) + 4
}

struct Program {
    steps: [Step; 256],
    count: usize,
}

impl Program {
    const fn new() -> Self {
        Self { steps: [Step { code: 0, yes: 0, no: 0, value: 0 }; 256], count: 0 }
    }

    const fn add(&mut self, code: u16, value: u32, yes: u8, no: u8) {
        self.steps[self.count] = Step { code, yes, no, value };
        self.count += 1;
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
        sys::call3(sys::SECCOMP, 1, ALL_THREADS, (&raw const filter) as u64)
    }
}

// Calls that change mappings, signals, threads and programs.
const ALWAYS: [u64; 20] = [
    sys::MMAP,
    sys::MPROTECT,
    sys::MUNMAP,
    sys::RT_SIGACTION,
    sys::RT_SIGPROCMASK,
    sys::MREMAP,
    sys::MSYNC,
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
    sys::ARCH_PRCTL,
];

// Calls with lists of buffers.
const LISTS: [u64; 8] = [
    sys::READV,
    sys::WRITEV,
    sys::PREADV,
    sys::PWRITEV,
    sys::PREADV2,
    sys::PWRITEV2,
    sys::SENDMSG,
    sys::RECVMSG,
];

/// The filter that every process has; children and what they execute keep it.
pub fn install_first() -> u64 {
    const SET_GS: u32 = 0x1001;
    let mut program = Program::new();
    program.add(LOAD, NUMBER, 0, 0);
    let count = ALWAYS.len();
    for (at, number) in ALWAYS.into_iter().enumerate() {
        program.add(EQUAL, number as u32, (count - at) as u8, 0);
    }
    program.add(RETURN, ALLOW, 0, 0);
    // Another program's start maps our memory before our code is there.
    program.add(EQUAL, sys::MMAP as u32, 0, 4);
    program.add(LOAD, high(0), 0, 0);
    program.add(AND, 0xffff_ff00, 0, 0);
    program.add(EQUAL, (RUNTIME >> 32) as u32, 0, 5);
    program.add(RETURN, ALLOW, 0, 0);
    program.add(EQUAL, sys::ARCH_PRCTL as u32, 0, 3);
    program.add(LOAD, low(0), 0, 0);
    program.add(EQUAL, SET_GS, 1, 0);
    program.add(RETURN, ALLOW, 0, 0);
    program.allow_ours();
    program.add(RETURN, TRAP, 0, 0);
    program.install()
}

/// A filter for what points to a mapping, or writes to the descriptor that was mapped.
pub fn install_for(start: u64, end: u64, descriptor: u64) -> u64 {
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
    program.add(LOAD, NUMBER, 0, 0);
    for number in LISTS {
        program.add(EQUAL, number as u32, 0, 1);
        program.add(RETURN, TRAP, 0, 0);
    }
    for number in [sys::WRITE, sys::PWRITE, sys::FTRUNCATE, sys::FALLOCATE] {
        program.add(EQUAL, number as u32, 0, 4);
        program.add(LOAD, low(0), 0, 0);
        program.add(EQUAL, descriptor as u32, 0, 1);
        program.add(RETURN, TRAP, 0, 0);
        program.add(LOAD, NUMBER, 0, 0);
    }
    program.add(RETURN, ALLOW, 0, 0);
    program.install()
}
