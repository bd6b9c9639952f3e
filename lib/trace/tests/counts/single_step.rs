//! What the processor does, one instruction after the other: `ptrace` stops behind each of them,
//! and the registers tell what the next one is about to access.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use iced_x86::{
    Decoder, DecoderOptions, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind,
    Register, UsedMemory,
};

use crate::effects::{Happened, Line, Site, What, whole};
use crate::modules::{Mapping, mappings};

pub struct Stepped {
    pub code: i32,
    pub happened: Vec<Happened>,
}

type Registers = libc::user_regs_struct;

// An instruction, and what of it has to be looked at.
struct Known {
    instruction: Instruction,
    site: Option<Site>,
    stores: Vec<UsedMemory>,
    what: What,
}

/// Runs a command, of which one thread of one process is stepped, and `file` is traced.
pub fn run(command: &[PathBuf], file: &Path) -> Stepped {
    let mut child = Command::new(&command[0]);
    child.args(&command[1..]).env_clear();
    // Each step is two changes of threads, which take a third of the time where both are on one
    // CPU.
    let before = pin();
    // SAFETY: nothing is called between fork and exec but system calls.
    unsafe {
        child.pre_exec(|| match libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        });
    }
    let process = child.spawn().unwrap().id() as i32;
    let mut stepper = Stepper {
        process,
        memory: memory(process),
        file: file.to_path_buf(),
        known: HashMap::new(),
        mapped: Vec::new(),
        traced: Vec::new(),
        happened: Vec::new(),
    };
    let code = stepper.run();
    unpin(&before);
    Stepped { code, happened: whole(stepper.happened) }
}

// Keeps this thread and its children on one CPU; returns where they were before.
fn pin() -> libc::cpu_set_t {
    // SAFETY: the sets are of numbers alone.
    unsafe {
        let (mut before, mut one): (libc::cpu_set_t, libc::cpu_set_t) = std::mem::zeroed();
        libc::sched_getaffinity(0, size_of_val(&before), &mut before);
        libc::CPU_SET(libc::sched_getcpu() as usize, &mut one);
        libc::sched_setaffinity(0, size_of_val(&one), &one);
        before
    }
}

fn unpin(before: &libc::cpu_set_t) {
    // SAFETY: it reads numbers.
    unsafe { libc::sched_setaffinity(0, size_of_val(before), before) };
}

struct Stepper {
    process: i32,
    memory: File,
    file: PathBuf,
    known: HashMap<u64, Known>,
    mapped: Vec<Mapping>,
    // Of the file: from where to where, and where in the file that is.
    traced: Vec<(u64, u64, u64)>,
    happened: Vec<Happened>,
}

impl Stepper {
    fn run(&mut self) -> i32 {
        let mut signal = self.wait().expect("a program that begins");
        self.map();
        for turn in 0.. {
            if signal == libc::SIGTRAP {
                signal = 0;
            }
            let before = self.registers();
            let at = self.happened.len();
            let calls = self.look(turn, &before);
            // SAFETY: it resumes a stopped thread.
            let done = unsafe { libc::ptrace(libc::PTRACE_SINGLESTEP, self.process, 0, signal) };
            assert!(done == 0, "{}", io::Error::last_os_error());
            match self.wait() {
                Ok(next) => signal = next,
                Err(code) => return code,
            }
            // A comparison that failed has stored nothing.
            let compared =
                self.happened.get_mut(at).filter(|one| one.compares() && !one.stores.is_empty());
            if let Some(one) = compared {
                const EQUAL: u64 = 0x40;
                let after = registers(self.process);
                if after.eflags & EQUAL == 0 {
                    one.stores.clear();
                }
            }
            if calls {
                self.map();
            }
        }
        unreachable!("there are so many turns")
    }

    // The signal that it stopped with, or what it exited with.
    fn wait(&self) -> Result<i32, i32> {
        let mut status = 0;
        // SAFETY: it writes a number.
        let waited = unsafe { libc::waitpid(self.process, &mut status, 0) };
        assert_eq!(waited, self.process, "{}", io::Error::last_os_error());
        if libc::WIFSTOPPED(status) {
            return Ok(libc::WSTOPSIG(status));
        }
        assert!(libc::WIFEXITED(status), "signal {} ended it", libc::WTERMSIG(status));
        Err(libc::WEXITSTATUS(status))
    }

    fn registers(&self) -> Registers {
        registers(self.process)
    }

    // Notes what the next instruction is going to do. Whether mappings may be others afterwards.
    fn look(&mut self, turn: u64, registers: &Registers) -> bool {
        let pc = registers.rip;
        if !self.known.contains_key(&pc) {
            let known = self.decode(pc);
            self.known.insert(pc, known);
        }
        let known = &self.known[&pc];
        let instruction = &known.instruction;
        if instruction.mnemonic() == Mnemonic::Syscall {
            let number = registers.rax as i64;
            return [libc::SYS_mmap, libc::SYS_munmap, libc::SYS_mremap, libc::SYS_execve]
                .contains(&number);
        }
        let (what, Some(site)) = (known.what, known.site) else { return false };
        if known.stores.is_empty() && what == What::Store {
            return false;
        }
        let mut stores = Vec::new();
        let repeated = instruction.has_rep_prefix() || instruction.has_repne_prefix();
        if !(repeated && instruction.is_string_instruction() && registers.rcx == 0) {
            for (at, size) in
                known.stores.iter().flat_map(|memory| self.stored(instruction, memory, registers))
            {
                stores.extend(self.offset(at).map(|offset| (offset, size)));
            }
        }
        let line = if what.is_flush() {
            let operand = instruction.virtual_address(0, 0, |one, _, _| value(one, registers));
            self.offset(operand.expect("an address")).map_or(Line::Elsewhere, Line::At)
        } else {
            Line::Unknown
        };
        if what != What::Store || !stores.is_empty() {
            let instruction = *instruction;
            self.happened.push(Happened { turn, site, instruction, stores, line });
        }
        false
    }

    // Addresses and sizes of what an operand in memory is given.
    fn stored(
        &self,
        instruction: &Instruction,
        memory: &UsedMemory,
        registers: &Registers,
    ) -> Vec<(u64, u64)> {
        use Mnemonic as M;
        let at = memory.virtual_address(0, |one, _, _| value(one, registers));
        let string = instruction.is_string_instruction();
        // One step of a string that is repeated stores one element.
        let size = if string { instruction.memory_size() } else { memory.memory_size() };
        let (at, size) = (at.expect("general registers"), size.size() as u64);
        match instruction.mnemonic() {
            // The register counts bits from there (Intel SDM volume 2A, "BTS").
            M::Bts | M::Btr | M::Btc if instruction.op1_kind() == OpKind::Register => {
                let bit = value(instruction.op1_register(), registers).expect("a general register");
                let bit = (bit as i64) << (64 - 8 * size) >> (64 - 8 * size);
                vec![(at.wrapping_add_signed(bit.div_euclid(8 * size as i64) * size as i64), size)]
            }
            M::Maskmovdqu | M::Vmaskmovdqu => {
                let mask =
                    vector(self.process, instruction.op_register(instruction.op_count() - 1));
                let stored = (0..16).filter(|byte| mask[*byte as usize] & 0x80 != 0);
                stored.map(|byte| (at + byte, 1)).collect()
            }
            _ if memory.access() == OpAccess::CondWrite && self.offset(at).is_some() => {
                assert!(string, "what {instruction:?} stores is not known from general registers");
                vec![(at, size)]
            }
            _ => vec![(at, size)],
        }
    }

    fn offset(&self, address: u64) -> Option<u64> {
        let holds = |(start, end, _): &&(u64, u64, u64)| (*start..*end).contains(&address);
        self.traced.iter().find(holds).map(|(start, _, offset)| offset + (address - start))
    }

    fn decode(&mut self, pc: u64) -> Known {
        let mut bytes = [0; 15];
        let read = self.memory.read_at(&mut bytes, pc).unwrap_or_default();
        let mut instruction =
            Decoder::with_ip(64, &bytes[..read], pc, DecoderOptions::NONE).decode();
        if instruction.is_invalid() {
            // Its page ends within them.
            let rest = (4096 - pc % 4096) as usize;
            self.memory.read_exact_at(&mut bytes[..rest.min(15)], pc).unwrap();
            instruction =
                Decoder::with_ip(64, &bytes[..rest.min(15)], pc, DecoderOptions::NONE).decode();
        }
        let mut factory = InstructionInfoFactory::new();
        let stores = factory.info(&instruction).used_memory().iter().filter(|memory| {
            use OpAccess as A;
            matches!(memory.access(), A::Write | A::CondWrite | A::ReadWrite | A::ReadCondWrite)
        });
        let holds = |one: &&Mapping| (one.start..one.end).contains(&pc);
        let site = self.mapped.iter().find(holds);
        let site = site.map(|one| Site { inode: one.inode, offset: one.offset + (pc - one.start) });
        let what = What::of(&instruction);
        Known { instruction, site, stores: stores.copied().collect(), what }
    }

    fn map(&mut self) {
        self.known.clear();
        self.memory = memory(self.process);
        self.mapped = mappings(self.process);
        let inode = self.file.metadata().map(|metadata| metadata.ino()).ok();
        let traced = self.mapped.iter().filter(|one| one.shared && Some(one.inode) == inode);
        self.traced = traced.map(|one| (one.start, one.end, one.offset)).collect();
    }
}

// That of the program that it executes now.
fn memory(process: i32) -> File {
    File::open(format!("/proc/{process}/mem")).unwrap()
}

fn registers(process: i32) -> Registers {
    // SAFETY: the kernel fills them in.
    unsafe {
        let mut registers: Registers = std::mem::zeroed();
        let done = libc::ptrace(libc::PTRACE_GETREGS, process, 0, &mut registers);
        assert!(done == 0, "{}", io::Error::last_os_error());
        registers
    }
}

// The low 16 bytes of a vector register.
fn vector(process: i32, register: Register) -> [u8; 16] {
    // SAFETY: the kernel fills them in.
    let words = unsafe {
        let mut registers: libc::user_fpregs_struct = std::mem::zeroed();
        let done = libc::ptrace(libc::PTRACE_GETFPREGS, process, 0, &mut registers);
        assert!(done == 0, "{}", io::Error::last_os_error());
        registers.xmm_space
    };
    let words = &words[4 * register.number()..][..4];
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    bytes.try_into().expect("16 bytes")
}

fn value(register: Register, registers: &Registers) -> Option<u64> {
    use Register as R;
    let whole = match register.full_register() {
        R::RAX => registers.rax,
        R::RCX => registers.rcx,
        R::RDX => registers.rdx,
        R::RBX => registers.rbx,
        R::RSP => registers.rsp,
        R::RBP => registers.rbp,
        R::RSI => registers.rsi,
        R::RDI => registers.rdi,
        R::R8 => registers.r8,
        R::R9 => registers.r9,
        R::R10 => registers.r10,
        R::R11 => registers.r11,
        R::R12 => registers.r12,
        R::R13 => registers.r13,
        R::R14 => registers.r14,
        R::R15 => registers.r15,
        R::FS => registers.fs_base,
        R::GS => registers.gs_base,
        R::ES | R::CS | R::SS | R::DS => 0,
        _ => return None,
    };
    Some(if register.size() == 4 { whole & 0xffff_ffff } else { whole })
}
