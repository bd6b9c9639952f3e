//! The recorder's own loop: answers what threads ask, keeps what they record, and follows processes
//! to their ends.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::copy::Copies;
use super::process::{self, Change, Registers, Unrecorded};
use super::rights;
use super::shared_memory::Memory;
use super::space::{Analyses, Space};
use super::terminal::{self, Output, Terminal};
use super::watcher::Watcher;
use super::{Options, Outcome, RecordError};
use crate::events::{Action, Ended, Event, Place, Site, Thread};
use crate::recording::Writer;
use ringfence_persist::Flush;
use ringfence_trace_runtime::layout::{
    BLOCK, Head, MOST_THREADS, OPENED_BY_RECORDER, RING, RUNTIME, SHARED, SHARED_SIZE, THREADS,
    kind,
};

/// Events that are kept before questions are looked at again.
const BATCH: usize = 4096;
/// The loop wakes up by itself after so long, in nanoseconds, to see what became of processes.
const TURN: i64 = 500_000;

// A program that is about to begin: what its process is put back to.
struct Beginning {
    registers: Registers,
}

// Where such a process is stopped.
#[derive(Debug, Clone, Copy)]
struct Stop {
    // Within `execve`, and not behind it.
    in_exec: bool,
    // Whether it has our filter of system calls from the program before.
    has_filter: bool,
}

pub(super) struct Service<'w> {
    pub(super) memory: Memory,
    pub(super) options: Options,
    pub(super) writer: &'w mut Writer,
    pub(super) spaces: Vec<Space>,
    // By process.
    pub(super) space_of: HashMap<i32, usize>,
    pub(super) analyses: Analyses,
    /// Sites by number, until an event names them.
    pub(super) sites: Vec<Option<Site>>,
    /// Recorded files: device and inode.
    pub(super) files: Vec<(u64, u64)>,
    notes: Vec<String>,
    /// Why no more can be recorded.
    pub(super) stopped: Option<String>,
    beginning: HashMap<i32, Beginning>,
    /// Threads of programs that cannot be recorded.
    pub(super) unrecorded: HashMap<i32, Unrecorded>,
    // Threads that are to be released once they stop.
    pub(super) unwatched: HashSet<i32>,
    // Threads that are about to execute another program.
    pub(super) watched: HashSet<i32>,
    /// Modules with instructions that are not recorded, once the recording says so.
    pub(super) told_unseen: HashSet<String>,
    /// Numbers given to stacks.
    pub(super) stacks: u32,
    threads_told: u32,
    sequence: u64,
    // By thread: of each call under way that makes files durable, the last event before it. A
    // handler may make another.
    syncs: HashMap<u32, Vec<u64>>,
    output: Option<Output>,
}

/// Runs a command and records what it does, until it and all of its children have ended.
///
/// # Errors
/// Where the command cannot be started or prepared, or the events cannot be kept. The command is
/// ended then.
pub fn record(options: Options, writer: &mut Writer) -> Result<Outcome, RecordError> {
    let prepared = |source| RecordError::Process {
        what: "memory for events cannot be set up".to_owned(),
        source,
    };
    let terminal = if options.output { Some(Terminal::open()?) } else { None };
    let output = terminal.as_ref().map(Terminal::identity).transpose()?;
    let memory = Memory::new(options.loads, output).map_err(prepared)?;
    let _interrupts = process::InterruptsIgnored::new();
    let _watcher = Watcher::start(&memory, options.copies.as_deref()).map_err(prepared)?;
    let command = options.command[0].to_string_lossy().into_owned();
    let copies = match &options.copies {
        Some(folder) => Copies::of(&options.files, folder)
            .and_then(|mut copies| {
                if options.made_in_memory {
                    copies.put_layers(&options.files, folder)?;
                }
                Ok(copies)
            })
            .map_err(|source| RecordError::Copy { folder: folder.clone(), source })?,
        None => Copies::default(),
    };
    let copies = Arc::new(copies);
    let output = terminal.as_ref().map(Terminal::output).transpose()?;
    let child = process::start(&options.command, Arc::clone(&copies), output)
        .map_err(|source| RecordError::of_start(command, &copies, source))?;
    let endings = process::Endings::new();
    rights::give_up().map_err(prepared)?;
    // Not before: threads have rights of their own.
    let output = terminal.map(Terminal::read).transpose()?;
    let main = child.id() as i32;
    let mut service = Service {
        memory,
        options,
        writer,
        spaces: Vec::new(),
        space_of: HashMap::new(),
        analyses: Analyses::default(),
        sites: vec![None],
        files: Vec::new(),
        notes: Vec::new(),
        stopped: None,
        beginning: HashMap::new(),
        unrecorded: HashMap::new(),
        unwatched: HashSet::new(),
        watched: HashSet::new(),
        told_unseen: HashSet::new(),
        stacks: 0,
        threads_told: 0,
        sequence: 0,
        syncs: HashMap::new(),
        output,
    };
    let result = service.run(main, &endings);
    if result.is_err() {
        service.end_all();
    }
    let ended = result?;
    let ended = match service.stopped.take() {
        Some(reason) => Ended::Stopped(reason),
        None => ended,
    };
    let printed = service.output.map(Output::finish).unwrap_or_default();
    Ok(Outcome { ended, events: service.sequence, printed, notes: service.notes })
}

impl Service<'_> {
    fn run(&mut self, main: i32, endings: &process::Endings) -> Result<Ended, RecordError> {
        let mut ended = None;
        let mut idle = 0;
        loop {
            if let Some(signal) = endings.asked() {
                self.stop(format!("{signal} ended it early"));
                if ended.is_none() {
                    process::kill(main);
                }
            }
            if self.output.as_ref().is_some_and(Output::is_full) {
                self.stop(format!("the program printed more than {} MiB", terminal::MOST >> 20));
            }
            let bell = self.memory.bell();
            let mut busy = self.answer_all()?;
            busy |= self.keep_events()?;
            self.writer.close_old_part()?;
            let known = self.space_of.keys().chain(&self.watched).chain(self.unrecorded.keys());
            let processes = known.chain([&main]).copied();
            for process in processes.collect::<BTreeSet<i32>>() {
                while let Some(change) = process::change(process) {
                    busy = true;
                    if let Some(how) = self.changed(process, change, main)? {
                        ended = Some(how);
                    }
                }
            }
            if busy {
                idle = 0;
                continue;
            }
            idle += 1;
            if idle == 1000 {
                // Whatever comes next may be long in coming.
                self.writer.close_part()?;
            }
            if idle % 64 == 0 || ended.is_some() {
                self.memory.unlock_dead();
                self.space_of.retain(|process, _| process::is_alive(*process));
                self.watched.retain(|thread| process::is_alive(*thread));
                self.forget_unrecorded();
            }
            if let Some(how) = &ended
                && self.space_of.is_empty()
                && self.unrecorded.is_empty()
            {
                self.keep_events()?;
                self.tell_locked().map_err(|source| RecordError::Process {
                    what: "the counters cannot be read".to_owned(),
                    source,
                })?;
                return Ok(how.clone());
            }
            self.memory.wait(bell, TURN);
        }
    }

    fn end_all(&mut self) {
        self.kill_all();
        let deadline = Instant::now() + Duration::from_secs(5);
        for process in self.space_of.keys() {
            while Instant::now() < deadline && process::is_alive(*process) {
                let _ = process::change(*process);
                std::thread::sleep(Duration::from_millis(1));
            }
            let _ = process::change(*process);
        }
    }

    /// No more can be recorded: everything ends.
    pub(super) fn stop(&mut self, reason: String) {
        self.stopped.get_or_insert(reason);
        self.kill_all();
    }

    fn kill_all(&self) {
        self.space_of.keys().chain(self.unrecorded.keys()).copied().for_each(process::kill);
    }

    /// Adds a note for readers of the recording, once.
    pub(super) fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.writer.note(&note);
            self.notes.push(note);
        }
    }

    fn changed(
        &mut self,
        process: i32,
        change: Change,
        main: i32,
    ) -> Result<Option<Ended>, RecordError> {
        let unrecorded = self.unrecorded.get(&process).copied();
        if let Some(known) = unrecorded
            && !matches!(change, Change::Exited(_) | Change::Killed(_) | Change::Executed)
        {
            self.go_on_unrecorded(process, change, known);
            return Ok(None);
        }
        match change {
            Change::Exited(code) if process == main => {
                self.unrecorded.remove(&process);
                return Ok(Some(Ended::Exited(code)));
            }
            Change::Killed(signal) if process == main => {
                self.unrecorded.remove(&process);
                return Ok(Some(Ended::Signal(signal)));
            }
            Change::Exited(_) | Change::Killed(_) => _ = self.unrecorded.remove(&process),
            Change::Executed => {
                self.watched.remove(&process);
                self.unrecorded.remove(&process);
                let has_filter = unrecorded.is_none_or(|one| one.has_filter);
                self.begin(process, Stop { in_exec: true, has_filter })?;
            }
            Change::Interrupted | Change::Halted if self.unwatched.remove(&process) => {
                self.watched.remove(&process);
                let _ = process::let_go(process);
            }
            Change::Interrupted | Change::Halted | Change::Made(_) => {
                let _ = process::go_on(process, 0);
            }
            Change::Signal(libc::SIGTRAP) if self.beginning.contains_key(&process) => {
                self.begun(process)?
            }
            Change::Signal(libc::SIGTRAP) if self.space_of.is_empty() && process == main => {
                self.begin(process, Stop { in_exec: false, has_filter: false })?;
            }
            Change::Signal(signal) => {
                let _ = process::go_on(process, signal);
            }
        }
        Ok(None)
    }

    // A process has executed a program: our part begins in it.
    fn begin(&mut self, process: i32, stop: Stop) -> Result<(), RecordError> {
        let result = process::registers(process).and_then(|registers| {
            if process::are_of_32_bits(&registers) {
                self.leave_unrecorded(process, stop.has_filter)
            } else {
                self.set_up(process, stop)
            }
        });
        result.map_err(|source| {
            process::kill(process);
            RecordError::Process {
                what: format!(
                    "process {process} could not be prepared for recording, which needs ptrace(2)"
                ),
                source,
            }
        })
    }

    fn set_up(&mut self, process: i32, stop: Stop) -> io::Result<()> {
        if stop.in_exec {
            process::finish_exec(process)?;
        }
        let mut space = Space::new(process)?;
        let registers = process::registers(process)?;
        space.first_code = space
            .all_mappings()?
            .iter()
            .filter(|one| one.executable && one.inode != 0)
            .map(|one| (one.start, one.end - one.start))
            .collect();
        let name = registers.rsp - 1024;
        let call = |number, arguments| process::call(process, space.memory(), number, arguments);
        let open = |file: &std::fs::File| {
            // This thread's: others may have rights that the process lacks.
            let path = format!(
                "/proc/{}/task/{}/fd/{}\0",
                std::process::id(),
                process::this_thread(),
                file.as_raw_fd()
            );
            space.write(name, path.as_bytes())?;
            call(libc::SYS_open, [name, libc::O_RDWR as u64, 0, 0, 0, OPENED_BY_RECORDER])
        };
        let map =
            |descriptor: u64, at: u64, size: u64, protection: i32, shared: bool, offset: u64| {
                let kind =
                    if shared { libc::MAP_SHARED | libc::MAP_NORESERVE } else { libc::MAP_PRIVATE };
                let flags = (kind | libc::MAP_FIXED_NOREPLACE) as u64;
                call(libc::SYS_mmap, [at, size, protection as u64, flags, descriptor, offset])
                    .map(drop)
            };
        let descriptor = open(&self.memory.runtime)?;
        for part in &self.memory.parts {
            map(
                descriptor,
                part.address,
                part.size,
                part.protection,
                false,
                part.address - RUNTIME,
            )?;
        }
        call(libc::SYS_close, [descriptor, 0, 0, 0, 0, 0])?;
        let both = libc::PROT_READ | libc::PROT_WRITE;
        let sizes = [(SHARED, SHARED_SIZE + RING), (THREADS, BLOCK * MOST_THREADS)];
        for (file, (at, size)) in [&self.memory.shared, &self.memory.threads].into_iter().zip(sizes)
        {
            let descriptor = open(file)?;
            map(descriptor, at, size, both, true, 0)?;
            call(libc::SYS_close, [descriptor, 0, 0, 0, 0, 0])?;
        }
        let mut start = registers;
        start.rip = self.memory.begin;
        start.rsp = (registers.rsp - 1024) & !63;
        start.rdi = (!stop.has_filter).into();
        start.orig_rax = u64::MAX;
        process::set_registers(process, &start)?;
        self.spaces.push(space);
        self.space_of.insert(process, self.spaces.len() - 1);
        self.beginning.insert(process, Beginning { registers });
        process::go_on(process, 0)
    }

    // The runtime has set itself up.
    fn begun(&mut self, process: i32) -> Result<(), RecordError> {
        let Some(Beginning { registers }) = self.beginning.remove(&process) else { return Ok(()) };
        // The thread's own block stays where the runtime has put it.
        let result = process::registers(process).and_then(|now| {
            process::set_registers(process, &Registers { gs_base: now.gs_base, ..registers })
        });
        let result = result.and_then(|()| process::let_go(process));
        result.map_err(|source| RecordError::Process {
            what: format!("process {process} could not be resumed"),
            source,
        })
    }

    fn answer_all(&mut self) -> Result<bool, RecordError> {
        let mut any = false;
        for thread in 0..self.memory.threads_so_far() {
            if let Some((kind, arguments)) = self.memory.question(thread) {
                any = true;
                // What happened before the question comes before what the answer brings about.
                self.answer(thread, kind, arguments)?;
            }
        }
        Ok(any)
    }

    fn keep_events(&mut self) -> Result<bool, RecordError> {
        for number in 0..BATCH {
            let Some(taken) = self.memory.next_event() else { return Ok(number > 0) };
            let head = taken.event;
            let action =
                action(&head, taken.data, self.syncs.get(&head.thread).and_then(|all| all.last()));
            drop(taken);
            match head.kind {
                kind::SYNC_BEGINS => self.syncs.entry(head.thread).or_default().push(self.sequence),
                kind::SYNC_ENDS => _ = self.syncs.get_mut(&head.thread).and_then(Vec::pop),
                _ => {}
            }
            let Some(action) = action else { continue };
            self.tell_threads(head.thread);
            if let Some(site) = self.sites.get_mut(head.site as usize).and_then(Option::take) {
                self.writer.site(&site);
            }
            self.sequence += 1;
            let (sequence, Head { thread, site, callers, .. }) = (self.sequence, head);
            self.writer.push(&Event { sequence, thread, site, callers, action })?;
        }
        Ok(true)
    }

    // What stubs have counted of locked instructions.
    fn tell_locked(&mut self) -> io::Result<()> {
        let mut count = 0;
        for thread in 0..self.memory.threads_so_far() {
            count += self.memory.counts(thread, self.sites.len())?.iter().sum::<u64>();
        }
        self.writer.locked_in_all(count);
        Ok(())
    }

    fn tell_threads(&mut self, last: u32) {
        while self.threads_told <= last {
            let id = self.threads_told;
            let (process, tid) = self.memory.ids(id);
            let name = std::fs::read_to_string(format!("/proc/{process}/task/{tid}/comm"))
                .unwrap_or_default();
            self.writer.thread(Thread { id, process, tid, name: name.trim_end().to_owned() });
            self.threads_told += 1;
        }
    }

    /// The space of a thread's process.
    pub(super) fn space(&mut self, thread: u32) -> Option<&mut Space> {
        let process = self.memory.ids(thread).0 as i32;
        let number = *self.space_of.get(&process)?;
        let space = self.spaces.get_mut(number)?;
        space.remapped = self.memory.remapped();
        Some(space)
    }
}

fn action(head: &Head, data: &[u8], began: Option<&u64>) -> Option<Action> {
    let at = Place { file: u32::from(head.file), offset: head.offset };
    let bytes = || data[..head.size as usize].to_vec();
    let flush = |flush| Action::Flush { flush, at };
    let address = || data.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    Some(match head.kind {
        kind::STORE => Action::Store { at, bytes: bytes() },
        kind::NON_TEMPORAL => Action::NonTemporal { at, bytes: bytes() },
        kind::LOAD => Action::Load { at, size: head.size as u32 },
        kind::CLFLUSH => flush(Flush::Clflush),
        kind::CLFLUSHOPT => flush(Flush::Clflushopt),
        kind::CLWB => flush(Flush::Clwb),
        kind::SFENCE => Action::Sfence,
        kind::MFENCE => Action::Mfence,
        kind::LOCKED => Action::Locked { stores: Some((at, bytes())) },
        kind::LOCKED_ONLY => Action::Locked { stores: None },
        kind::MSYNC => Action::Msync { at, size: head.size, began: began.copied() },
        kind::SYNC_RANGE => Action::SyncRange { at, size: head.size },
        kind::MAP => Action::Map { at, address: address(), size: head.size },
        kind::UNMAP => Action::Unmap { at, address: address(), size: head.size },
        kind::WRITE => Action::Write { at, bytes: bytes() },
        kind::TRUNCATE => Action::Truncate { file: at.file, size: head.size },
        kind::OUTPUT => Action::Output { bytes: bytes() },
        _ => return None,
    })
}
