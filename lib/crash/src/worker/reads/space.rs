//! The memory of a process that is followed: where it has mapped files, and which of their pages it
//! has no access to.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::filter;
use super::marks::Page;
use super::ptrace::{self, Registers, Task};

pub(super) const PAGE: u64 = 4096;
const BREAKPOINT: [u8; 1] = [0xcc];

/// A part of a file in memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mapping {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) file: usize,
    pub(super) offset: u64,
    pub(super) protection: u64,
}

/// A process's memory.
#[derive(Debug, Default)]
pub(super) struct Space {
    // How many tasks share it.
    pub(super) tasks: usize,
    // Where it has an instruction that makes a system call.
    gadget: Option<u64>,
    memory: Option<File>,
    pub(super) mappings: Vec<Mapping>,
    // Closed pages, by their addresses.
    pub(super) closed: BTreeMap<u64, Page>,
    // By their addresses: the byte that each replaces, and the function that begins there.
    breakpoints: BTreeMap<u64, (u8, Option<usize>)>,
    /// Whether the second filter is installed.
    pub(super) has_second_filter: bool,
}

impl Space {
    /// A new program's: one task, and nothing mapped.
    pub(super) fn alone() -> Self {
        Self { tasks: 1, ..Self::default() }
    }

    /// A copy for a forked child.
    pub(super) fn copy(&self) -> Self {
        let (mappings, closed) = (self.mappings.clone(), self.closed.clone());
        Self {
            gadget: self.gadget,
            mappings,
            closed,
            breakpoints: self.breakpoints.clone(),
            has_second_filter: self.has_second_filter,
            ..Self::alone()
        }
    }

    pub(super) fn mapping(&self, at: u64) -> Option<Mapping> {
        self.mappings.iter().find(|one| (one.start..one.end).contains(&at)).copied()
    }

    /// Removes what was mapped in a range.
    pub(super) fn forget(&mut self, start: u64, end: u64) {
        let mut kept = Vec::new();
        for one in self.mappings.drain(..) {
            if one.start < start {
                kept.push(Mapping { end: one.end.min(start), ..one });
            }
            if one.end > end {
                let from = one.start.max(end);
                kept.push(Mapping { start: from, offset: one.offset + (from - one.start), ..one });
            }
        }
        self.mappings = kept;
        self.closed.retain(|page, _| !(start..end).contains(page));
        self.breakpoints.retain(|at, _| !(start..end).contains(at));
    }

    /// Reads memory, also of closed pages, as it is without breakpoints.
    pub(super) fn read(&mut self, task: Task, at: u64, bytes: &mut [u8]) -> io::Result<usize> {
        let count = self.memory(task)?.read_at(bytes, at)?;
        for (breakpoint, (byte, _)) in self.breakpoints.range(at..at.saturating_add(count as u64)) {
            bytes[(breakpoint - at) as usize] = *byte;
        }
        Ok(count)
    }

    fn memory(&mut self, task: Task) -> io::Result<&File> {
        Ok(match &mut self.memory {
            Some(memory) => memory,
            none => none.insert(memory(task)?),
        })
    }

    /// Sets a breakpoint, at the beginning of a function or elsewhere, unless there is one.
    pub(super) fn set_breakpoint(
        &mut self,
        task: Task,
        at: u64,
        function: Option<usize>,
    ) -> io::Result<()> {
        if let Some((_, known)) = self.breakpoints.get_mut(&at) {
            *known = known.or(function);
            return Ok(());
        }
        let memory = self.memory(task)?;
        let mut byte = [0; 1];
        memory.read_exact_at(&mut byte, at)?;
        memory.write_all_at(&BREAKPOINT, at)?;
        self.breakpoints.insert(at, (byte[0], function));
        Ok(())
    }

    /// Whether there is a breakpoint, and the function that begins there.
    pub(super) fn breakpoint(&self, at: u64) -> Option<Option<usize>> {
        self.breakpoints.get(&at).map(|(_, function)| *function)
    }

    /// Removes a breakpoint for a moment, if there is one.
    pub(super) fn lift(&mut self, task: Task, at: u64) -> io::Result<Option<u64>> {
        let Some((byte, _)) = self.breakpoints.get(&at).copied() else { return Ok(None) };
        self.memory(task)?.write_all_at(&[byte], at)?;
        Ok(Some(at))
    }

    /// Puts it back.
    pub(super) fn put_back(&mut self, task: Task, lifted: Option<u64>) -> io::Result<()> {
        let Some(at) = lifted else { return Ok(()) };
        self.memory(task)?.write_all_at(&BREAKPOINT, at)
    }

    /// Lets a task execute the instruction that it has come to, with all of its repetitions; it has
    /// so many bytes. Gives the signal that it ended in: SIGTRAP where all is well.
    pub(super) fn execute(
        &mut self,
        task: Task,
        at: u64,
        length: u64,
        later: &mut Vec<i32>,
    ) -> io::Result<i32> {
        let lifted = self.lift(task, at)?;
        let mut ended = ptrace::step(task, later)?;
        // A repeated instruction stops after each repetition.
        if ended == libc::SIGTRAP && ptrace::registers(task)?.rip == at {
            ended = self.run_to(task, at + length, later)?;
        }
        self.put_back(task, lifted)?;
        Ok(ended)
    }

    /// Lets a task run up to an instruction. Gives the signal that it ended in: SIGTRAP where it
    /// has come there.
    fn run_to(&mut self, task: Task, at: u64, later: &mut Vec<i32>) -> io::Result<i32> {
        let file = File::options().read(true).write(true).open(format!("/proc/{task}/mem"))?;
        let mut byte = [0; 1];
        file.read_exact_at(&mut byte, at)?;
        file.write_all_at(&BREAKPOINT, at)?;
        let ended = ptrace::run(task, later);
        file.write_all_at(&byte, at)?;
        let ended = ended?;
        if ended == libc::SIGTRAP {
            let registers = ptrace::registers(task)?;
            ptrace::set_registers(task, &Registers { rip: at, ..registers })?;
        }
        Ok(ended)
    }

    /// Installs the second filter in all of its threads.
    pub(super) fn install_second(&mut self, task: Task, later: &mut Vec<i32>) -> io::Result<()> {
        if std::mem::replace(&mut self.has_second_filter, true) {
            return Ok(());
        }
        let registers = ptrace::registers(task)?;
        let gadget = self.gadget(task)?;
        let filter = filter::second();
        // Below the red zone of the function that made the call.
        let at = (registers.rsp - 256 - filter.len() as u64) & !15;
        let mut program = [0; 16];
        program[..2].copy_from_slice(&((filter.len() / 8) as u16).to_le_bytes());
        program[8..].copy_from_slice(&at.to_le_bytes());
        let file = File::options().write(true).open(format!("/proc/{task}/mem"))?;
        file.write_all_at(&filter, at)?;
        file.write_all_at(&program, at - 16)?;
        const ALL_THREADS: u64 = 1;
        let arguments = [1, ALL_THREADS, at - 16];
        match ptrace::call(task, &registers, gadget, libc::SYS_seccomp, arguments, later)? {
            0 => Ok(()),
            _ => Err(io::Error::other("its calls cannot be followed")),
        }
    }

    fn gadget(&mut self, task: Task) -> io::Result<u64> {
        match self.gadget {
            Some(gadget) => Ok(gadget),
            None => Ok(*self.gadget.insert(find_gadget(task)?)),
        }
    }

    // Changes the protection of pages, with one call for neighbours.
    fn protect(
        &mut self,
        task: Task,
        pages: &[u64],
        protection: Option<u64>,
        later: &mut Vec<i32>,
    ) -> io::Result<()> {
        let registers = ptrace::registers(task)?;
        let gadget = self.gadget(task)?;
        let mut at = 0;
        while at < pages.len() {
            let first = pages[at];
            let count = (1..pages.len() - at)
                .find(|next| pages[at + next] != first + *next as u64 * PAGE)
                .unwrap_or(pages.len() - at);
            let own = self.mapping(first).map_or(0, |mapping| mapping.protection);
            let arguments = [first, count as u64 * PAGE, protection.unwrap_or(own)];
            let number = libc::SYS_mprotect;
            let result = ptrace::call(task, &registers, gadget, number, arguments, later)?;
            if result != 0 {
                return Err(io::Error::from_raw_os_error(result.wrapping_neg() as i32));
            }
            at += count;
        }
        Ok(())
    }

    /// Closes pages: each access stops the task.
    pub(super) fn close(
        &mut self,
        task: Task,
        pages: &[(u64, Page)],
        later: &mut Vec<i32>,
    ) -> io::Result<()> {
        let addresses: Vec<u64> = pages.iter().map(|(at, _)| *at).collect();
        self.protect(task, &addresses, Some(0), later)?;
        self.closed.extend(pages.iter().copied());
        Ok(())
    }

    /// Opens pages.
    pub(super) fn open(
        &mut self,
        task: Task,
        pages: &[u64],
        later: &mut Vec<i32>,
    ) -> io::Result<()> {
        self.protect(task, pages, None, later)?;
        pages.iter().for_each(|page| _ = self.closed.remove(page));
        Ok(())
    }

    /// Closed pages of a range of addresses.
    pub(super) fn closed_in(&self, start: u64, end: u64) -> Vec<(u64, Page)> {
        let from = start / PAGE * PAGE;
        self.closed.range(from..end.max(from)).map(|(at, page)| (*at, *page)).collect()
    }
}

/// Reads memory of a process, also of closed pages.
pub(super) fn read(task: Task, at: u64, bytes: &mut [u8]) -> io::Result<usize> {
    memory(task)?.read_at(bytes, at)
}

fn memory(task: Task) -> io::Result<File> {
    File::options().read(true).write(true).open(format!("/proc/{task}/mem"))
}

// Every process has such an instruction in the part that the kernel gives it (vdso(7)).
fn find_gadget(task: Task) -> io::Result<u64> {
    const SYSCALL: [u8; 2] = [0x0f, 0x05];
    let vector = std::fs::read(format!("/proc/{task}/auxv"))?;
    let mut pairs = vector.chunks_exact(16).map(|pair| {
        let (key, value) = pair.split_at(8);
        let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("8 bytes"));
        (number(key), number(value))
    });
    let start = pairs.find(|(key, _)| *key == libc::AT_SYSINFO_EHDR).map(|(_, value)| value);
    let none = || io::Error::other("it has no vdso");
    let start = start.ok_or_else(none)?;
    let mut code = vec![0; 2 * PAGE as usize];
    let count = read(task, start, &mut code)?;
    let at = code[..count].windows(2).position(|two| two == SYSCALL).ok_or_else(none)?;
    Ok(start + at as u64)
}

/// Whether registers are those of a 32-bit program: its code segment is Linux's `__USER32_CS`.
pub(super) fn are_of_32_bits(registers: &Registers) -> bool {
    registers.cs == 0x23
}
