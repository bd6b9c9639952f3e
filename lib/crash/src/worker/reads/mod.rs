//! Follows what a command reads of the files, word by word where that matters: states that differ
//! in nothing that recovery reads are one.
//!
//! The pages of the files that the recorded program ever stored to are closed to the command
//! (`PROT_NONE`). An access stops it with SIGSEGV; this finds out what the instruction reads, and
//! lets it execute alone. A page on which nothing is undecided is opened at the first access, and
//! counts as read. Reads by system calls are known from their arguments. Whatever is not understood
//! counts as read, which can only add states.

mod access;
mod calls;
mod checksum;
pub(super) mod filter;
mod functions;
mod marks;
pub(super) mod ptrace;
mod space;

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::unix::fs::MetadataExt;

use access::{Access, access};
use functions::Entered;
pub(super) use functions::Functions;
pub(super) use marks::Marks;
pub use marks::Read;
use ptrace::{Registers, Task};
use space::{Mapping, PAGE, Space};

/// After so many stops, pages are opened at their next access.
const MOST_STOPS: usize = 50_000;

/// Follows a command and all that it starts.
pub(super) struct Follower<'s> {
    pub(super) marks: Marks<'s>,
    // Device and inode of each file.
    files: &'s [(u64, u64)],
    spaces: Vec<Space>,
    of: HashMap<Task, usize>,
    // New tasks whose parents have not told of them.
    early: HashSet<Task>,
    // What is to be done when a task's call has ended.
    ends: HashMap<Task, End>,
    // Functions whose reads a checksum covers, the tasks in one, and how many calls there were.
    functions: Functions,
    entered: HashMap<Task, Entered>,
    calls: u32,
    stops: usize,
    // Nothing is followed any more: everything counts as read.
    gave_up: bool,
    // Whether a system call has stopped a task: if none has, the filter is not there.
    has_filter: bool,
}

// A system call under way.
#[derive(Debug, Clone, Copy)]
enum End {
    // It maps a file.
    Maps { file: usize, offset: u64, length: u64, protection: u64 },
    // It changes the protection of memory.
    Protects { start: u64, length: u64, protection: u64 },
    // It is made again, once memory that it is given has been opened.
    Again { registers: Registers, start: u64, end: u64 },
}

impl<'s> Follower<'s> {
    /// Follows a process from now on.
    pub(super) fn new(
        marks: Marks<'s>,
        files: &'s [(u64, u64)],
        functions: Functions,
        process: Task,
    ) -> Self {
        Self {
            marks,
            files,
            spaces: vec![Space::alone()],
            of: HashMap::from([(process, 0)]),
            early: HashSet::new(),
            ends: HashMap::new(),
            functions,
            entered: HashMap::new(),
            calls: 0,
            stops: 0,
            gave_up: false,
            has_filter: false,
        }
    }

    /// A task has ended or stopped, as `waitpid` says.
    pub(super) fn changed(&mut self, task: Task, status: i32) {
        if !libc::WIFSTOPPED(status) {
            if let Some(space) = self.of.remove(&task) {
                self.spaces[space].tasks -= 1;
            }
            self.ends.remove(&task);
            self.entered.remove(&task);
            return;
        }
        let mut later = Vec::new();
        let done = match (status >> 16, libc::WSTOPSIG(status)) {
            (libc::PTRACE_EVENT_SECCOMP, _) => self.calls(task),
            (libc::PTRACE_EVENT_EXEC, _) => self.executed(task),
            (event @ (libc::PTRACE_EVENT_FORK..=libc::PTRACE_EVENT_CLONE), _) => {
                self.made(task, event)
            }
            (libc::PTRACE_EVENT_STOP, signal) => self.begun(task, signal),
            (0, signal) if signal == libc::SIGTRAP | 0x80 => self.call_ended(task, &mut later),
            (0, libc::SIGSEGV) => self.refused(task, &mut later),
            (0, libc::SIGTRAP) => self.trapped(task, &mut later),
            (0, signal) => ptrace::go_on(task, signal),
            _ => ptrace::go_on(task, 0),
        };
        if let Err(error) = done
            && error.raw_os_error() != Some(libc::ESRCH)
        {
            self.give_up();
            let _ = ptrace::go_on(task, 0);
        }
        later.into_iter().for_each(|signal| ptrace::send(task, signal));
    }

    /// What was read, once the command has ended; and the functions as they are known now.
    pub(super) fn read(mut self) -> (Read, Functions) {
        if !self.has_filter {
            self.give_up();
        }
        (self.marks.end(), self.functions)
    }

    fn give_up(&mut self) {
        self.gave_up = true;
        self.marks.read_all();
    }

    fn space(&mut self, task: Task) -> &mut Space {
        let number = *self.of.entry(task).or_insert_with(|| {
            self.spaces.push(Space::alone());
            self.spaces.len() - 1
        });
        &mut self.spaces[number]
    }

    fn executed(&mut self, task: Task) -> io::Result<()> {
        // Of several threads, the one that calls takes the number of the first.
        let former = ptrace::message(task)?;
        let has_second_filter =
            self.of.get(&former).is_some_and(|one| self.spaces[*one].has_second_filter);
        for gone in [task, former] {
            self.entered.remove(&gone);
            if let Some(space) = self.of.remove(&gone) {
                self.spaces[space].tasks -= 1;
            }
        }
        self.space(task).has_second_filter = has_second_filter;
        ptrace::go_on(task, 0)
    }

    // A task has made another.
    fn made(&mut self, task: Task, event: i32) -> io::Result<()> {
        let new = ptrace::message(task)?;
        let own = self.space(task);
        if event == libc::PTRACE_EVENT_FORK {
            let copy = own.copy();
            self.spaces.push(copy);
            self.of.insert(new, self.spaces.len() - 1);
        } else {
            own.tasks += 1;
            let number = self.of[&task];
            self.of.insert(new, number);
        }
        if event != libc::PTRACE_EVENT_CLONE
            && let Some(entered) = self.entered.get(&task).cloned()
        {
            self.entered.insert(new, entered);
        }
        if self.early.remove(&new) {
            // It may have ended meanwhile.
            let _ = ptrace::go_on(new, 0);
        }
        ptrace::go_on(task, 0)
    }

    // A new task is there, or a signal stops one.
    fn begun(&mut self, task: Task, signal: i32) -> io::Result<()> {
        match signal {
            libc::SIGSTOP | libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU => {
                ptrace::stay_stopped(task)
            }
            _ if !self.of.contains_key(&task) => {
                self.early.insert(task);
                Ok(())
            }
            _ => ptrace::go_on(task, 0),
        }
    }

    // A task has stopped with SIGSEGV: at a closed page, or by a fault of its own.
    fn refused(&mut self, task: Task, later: &mut Vec<i32>) -> io::Result<()> {
        let address = ptrace::refused(task)?;
        let page = |space: &Space| {
            let at = address? / PAGE * PAGE;
            space.closed.get(&at).map(|page| (at, *page))
        };
        self.space(task);
        let number = self.of[&task];
        let Some((at, page)) = page(&self.spaces[number]) else {
            return ptrace::go_on(task, libc::SIGSEGV);
        };
        self.stops += 1;
        let is_alone = self.spaces[number].tasks == 1;
        if self.marks.is_fine(page) && is_alone && self.stops < MOST_STOPS && !self.gave_up {
            return self.access(task, number, address.unwrap_or(at), later);
        }
        self.marks.read_page(page);
        self.spaces[number].open(task, &[at], later)?;
        ptrace::go_on(task, 0)
    }

    // Executes the instruction that a closed page has stopped, and notes what it reads.
    fn access(
        &mut self,
        task: Task,
        number: usize,
        address: u64,
        later: &mut Vec<i32>,
    ) -> io::Result<()> {
        let registers = ptrace::registers(task)?;
        let call = self.call_that_reads(task, number, registers.rsp);
        let mut code = [0; 15];
        let length = self.spaces[number].read(task, registers.rip, &mut code)?;
        let bytes = match access(&code[..length], &registers) {
            Access::Flush { length } => {
                let rip = registers.rip + length;
                ptrace::set_registers(task, &Registers { rip, ..registers })?;
                return ptrace::go_on(task, 0);
            }
            Access::Load(load) if self.is_in_one_page(number, load.at, load.size) => {
                let mut bytes = [0; 8];
                let wanted = &mut bytes[..load.size as usize];
                if self.spaces[number].read(task, load.at, wanted)? as u64 == load.size {
                    self.reads(number, load.at, load.size, call);
                    ptrace::set_registers(task, &load.executed(bytes, &registers))?;
                    return ptrace::go_on(task, 0);
                }
                Vec::new()
            }
            Access::Load(load) => {
                vec![access::Bytes { at: load.at, size: load.size, reads: true, writes: false }]
            }
            Access::Bytes(bytes) => bytes,
            Access::Unknown => Vec::new(),
        };
        let end = |one: &access::Bytes| one.at.saturating_add(one.size);
        if !bytes.iter().any(|one| (one.at..end(one)).contains(&address)) {
            // Not understood: the page counts as read.
            let at = address / PAGE * PAGE;
            let page = self.spaces[number].closed[&at];
            self.marks.read_page(page);
            self.spaces[number].open(task, &[at], later)?;
            return ptrace::go_on(task, 0);
        }
        let mut closed = Vec::new();
        for one in &bytes {
            if one.reads {
                self.reads(number, one.at, one.size, call);
            }
            closed.extend(self.spaces[number].closed_in(one.at, end(one)));
        }
        closed.sort_unstable();
        closed.dedup();
        let pages: Vec<u64> = closed.iter().map(|(at, _)| *at).collect();
        self.spaces[number].open(task, &pages, later)?;
        let length = access::length(&code[..length], registers.rip);
        let ended = self.spaces[number].execute(task, registers.rip, length, later)?;
        if ended != libc::SIGTRAP {
            // The instruction itself faults. It does so again with its pages open.
            closed.iter().for_each(|(_, page)| self.marks.read_page(*page));
            return ptrace::go_on(task, 0);
        }
        for one in bytes.iter().filter(|one| one.writes) {
            self.writes(number, one.at, one.size);
        }
        self.spaces[number].close(task, &closed, later)?;
        ptrace::go_on(task, 0)
    }

    // Opens the pages of a range, which count as read.
    fn open_all(
        &mut self,
        task: Task,
        number: usize,
        (start, end): (u64, u64),
        later: &mut Vec<i32>,
    ) -> io::Result<()> {
        let closed = self.spaces[number].closed_in(start, end);
        closed.iter().for_each(|(_, page)| self.marks.read_page(*page));
        let pages: Vec<u64> = closed.iter().map(|(at, _)| *at).collect();
        self.spaces[number].open(task, &pages, later)
    }

    fn is_in_one_page(&self, number: usize, at: u64, size: u64) -> bool {
        let page = at / PAGE * PAGE;
        let is_readable = |mapping: Mapping| mapping.protection & libc::PROT_READ as u64 != 0;
        at + size <= page + PAGE && self.spaces[number].mapping(at).is_some_and(is_readable)
    }

    // The parts of files that are mapped in a range.
    fn parts(&self, number: usize, at: u64, size: u64) -> Vec<(usize, u64, u64)> {
        let end = at.saturating_add(size);
        let part = |one: &Mapping| {
            let (from, to) = (at.max(one.start), end.min(one.end));
            (from < to).then(|| (one.file, one.offset + (from - one.start), to - from))
        };
        self.spaces[number].mappings.iter().filter_map(part).collect()
    }

    fn reads(&mut self, number: usize, at: u64, size: u64, call: Option<u32>) {
        for (file, from, size) in self.parts(number, at, size) {
            self.marks.read(file, from, size, call);
        }
    }

    fn writes(&mut self, number: usize, at: u64, size: u64) {
        for (file, from, size) in self.parts(number, at, size) {
            self.marks.written(file, from, size);
        }
    }

    // The number of the file that a descriptor is of.
    fn file(&self, task: Task, descriptor: u64) -> Option<usize> {
        let path = format!("/proc/{task}/fd/{}", descriptor as i32);
        let about = std::fs::metadata(path).ok()?;
        self.files.iter().position(|one| *one == (about.dev(), about.ino()))
    }
}
