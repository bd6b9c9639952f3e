//! Whether a task is in a function of `--checksum` when it reads.
//!
//! A breakpoint at the first instruction of such a function shows that it is entered, and one at
//! the address that it returns to shows that it has returned. Both stay in the program's code. A
//! task that runs past one while another task executes the instruction below it has entered
//! nothing: its reads count as ordinary ones.

use std::io;

use super::Follower;
use super::functions::Entered;
use super::ptrace::{self, Registers, Task};
use super::space::Space;

impl Follower<'_> {
    /// Sets the breakpoints at the functions of a process.
    pub(super) fn watch_functions(&mut self, task: Task) -> io::Result<()> {
        if self.functions.are_none() {
            return Ok(());
        }
        let maps = std::fs::read_to_string(format!("/proc/{task}/maps"))?;
        for (at, function) in self.functions.addresses(&maps) {
            self.space(task).set_breakpoint(task, at, Some(function))?;
        }
        Ok(())
    }

    /// A task has stopped with SIGTRAP: at a breakpoint, or by itself.
    pub(super) fn trapped(&mut self, task: Task, later: &mut Vec<i32>) -> io::Result<()> {
        let registers = ptrace::registers(task)?;
        let at = registers.rip.wrapping_sub(1);
        self.space(task);
        let number = self.of[&task];
        let Some(function) = self.spaces[number].breakpoint(at) else {
            return ptrace::go_on(task, libc::SIGTRAP);
        };
        ptrace::set_registers(task, &Registers { rip: at, ..registers })?;
        // A call from the same place as one that was left by `longjmp` is another one.
        self.call(task, number, registers.rsp + u64::from(function.is_some()));
        if let Some(function) = function {
            self.enters(task, number, function, registers.rsp)?;
        }
        let lifted = self.spaces[number].lift(task, at)?;
        let ended = ptrace::step(task, later);
        self.spaces[number].put_back(task, lifted)?;
        match ended? {
            libc::SIGTRAP => ptrace::go_on(task, 0),
            libc::SIGSEGV => self.refused(task, later),
            signal => ptrace::go_on(task, signal),
        }
    }

    fn enters(&mut self, task: Task, number: usize, function: usize, stack: u64) -> io::Result<()> {
        if let Some(entered) = self.entered.get_mut(&task) {
            if !entered.functions.contains(&function) {
                entered.functions.push(function);
            }
            return Ok(());
        }
        let space = &mut self.spaces[number];
        let back = word(space, task, stack)?;
        space.set_breakpoint(task, back, None)?;
        self.calls += 1;
        let entered = Entered { call: self.calls, functions: vec![function], stack, back };
        self.entered.insert(task, entered);
        Ok(())
    }

    /// The number of the call that a task is in, given its stack pointer. `longjmp` and exceptions
    /// leave a function without passing the address that it returns to.
    pub(super) fn call(&mut self, task: Task, number: usize, stack: u64) -> Option<u32> {
        let entered = self.entered.get(&task)?;
        let back = word(&mut self.spaces[number], task, entered.stack).ok();
        if stack > entered.stack || back != Some(entered.back) {
            self.entered.remove(&task);
            return None;
        }
        Some(entered.call)
    }

    /// The same for a task that reads bytes of the files.
    pub(super) fn call_that_reads(&mut self, task: Task, number: usize, stack: u64) -> Option<u32> {
        let call = self.call(task, number, stack)?;
        self.marks.called(&self.entered[&task].functions);
        Some(call)
    }
}

fn word(space: &mut Space, task: Task, at: u64) -> io::Result<u64> {
    let mut bytes = [0; 8];
    match space.read(task, at, &mut bytes)? {
        8 => Ok(u64::from_le_bytes(bytes)),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}
