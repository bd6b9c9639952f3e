//! What threads ask the recorder.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::rc::Rc;

use iced_x86::{Instruction, InstructionInfoFactory};

use super::analysis::Candidate;
use super::layout::{ask, how, stop};
use super::service::Service;
use super::space::{Mapping, Space};
use super::stub::{self, Jump, Parts};
use super::{RecordError, layout, process, site};
use crate::code::Operation;
use crate::events::{Site, TracedFile};

/// Sites of one recording at most: each has a count in every thread's block.
const MOST_SITES: usize = ((layout::BLOCK - layout::COUNTS) / 8) as usize;
/// Memory for stubs of what is found while the program runs.
const SPARE: u64 = 256 << 10;

impl Service<'_> {
    pub(super) fn answer(&mut self, thread: u32, kind: u32, a: [u64; 6]) -> Result<(), RecordError> {
        let (process, tid) = self.memory.ids(thread);
        let (process, tid) = (process as i32, tid as i32);
        let mut answer = [0; 4];
        let mut site = None;
        match kind {
            ask::SITE => site = self.make_site(thread, a[0]),
            ask::START => {
                let first = self.space(thread).and_then(|space| space.first_code.get(a[0] as usize).copied());
                (answer[0], answer[1]) = first.unwrap_or_default();
            }
            ask::CODE => (answer[0], answer[1]) = self.room_for(thread, a[0], a[1]),
            ask::PATCH => answer[0] = self.patch(thread, a),
            ask::PATCHED => answer[0] = self.patched(thread, a[0]),
            ask::ORIGIN => answer[0] = self.space(thread).map_or(a[0], |space| space.origin(a[0])),
            ask::FILE => answer[0] = self.file(process, a)?,
            ask::EXEC => {
                self.watched.insert(tid);
                if let Err(error) = process::watch_for_exec(tid) {
                    self.stop(format!("process {process} cannot be followed into its next program: {error}"));
                }
            }
            ask::NOT_EXEC => {
                self.unwatched.insert(tid);
                let _ = process::interrupt(tid);
            }
            ask::CHILD => self.child(process, a),
            ask::STOP => {
                let reason = self.reason(thread, a);
                self.stop(reason);
            }
            ask::HOT => (answer[0], site) = self.hot(thread, a),
            ask::HOT_TAIL => self.hot_tail(thread, a[0]),
            ask::HOT_HEAD => self.hot_head(thread, a[0]),
            ask::FRAME => answer = self.frame(thread, a[0]),
            ask::CALLERS => answer[0] = self.callers(thread, a[0] as usize).into(),
            ask::REFUSED => {
                let note = format!(
                    "system call {} was refused: what the kernel does of its own accord with buffers in a file \
                     cannot be recorded",
                    a[0]
                );
                if !self.notes.contains(&note) {
                    self.notes.push(note);
                }
            }
            _ => {}
        }
        self.memory.answer(thread, answer, site.as_ref());
        Ok(())
    }

    fn child(&mut self, process: i32, a: [u64; 6]) {
        let parent = self.memory.ids(a[0] as u32).0 as i32;
        if parent == process {
            return;
        }
        let Some(number) = self.space_of.get(&parent).copied() else { return };
        if a[1] != 0 {
            self.space_of.insert(process, number);
        } else if let Ok(space) = self.spaces[number].copy(process) {
            self.spaces.push(space);
            self.space_of.insert(process, self.spaces.len() - 1);
        }
    }

    // The site of an instruction that has touched a file.
    fn make_site(&mut self, thread: u32, pc: u64) -> Option<layout::Site> {
        let space = self.space(thread)?;
        let bytes = space.code(pc, 15);
        let mappings = space.mappings().unwrap_or_default();
        let mapping = mappings.iter().find(|one| (one.start..one.end).contains(&pc));
        let (instruction, mut site) = site::decode(&bytes, pc, &mut InstructionInfoFactory::new());
        let origin = space.origin(pc);
        let length = usize::from(site.length);
        if site.how == how::STUB || (how::MOVS..=how::SCAS).contains(&site.how) || needs_stub(site.how) {
            let parts =
                Parts { site: &site, instruction: &instruction, displaced: &[], on: None, guarded: false };
            match space.distant_room(pc).and_then(|at| Some((at, stub::assemble(&parts, at)?))) {
                Some((at, made)) if space.write(at, &made.code).is_ok() => {
                    (site.run, site.after, site.borrowed) = (made.run, made.after, made.borrowed);
                    space.add_copies(made.copies);
                }
                _ => site.how = how::NOT,
            }
        }
        site.may_change = mapping.is_none_or(Mapping::may_change).into();
        site.bytes[..bytes.len().min(15)].copy_from_slice(&bytes[..bytes.len().min(15)]);
        site.id = self.number(thread, origin, &bytes[..length.min(bytes.len())]);
        Some(site)
    }

    // A number for a site, under which it is told of once an event names it.
    fn number(&mut self, thread: u32, pc: u64, bytes: &[u8]) -> u32 {
        let (module, address) = self.place(thread, pc);
        self.add(Site { id: 0, module, address, bytes: bytes.to_vec() })
    }

    fn add(&mut self, site: Site) -> u32 {
        if self.sites.len() >= MOST_SITES {
            self.stop(format!("the program has more than {MOST_SITES} instructions that are to be recorded"));
            return 0;
        }
        let id = self.sites.len() as u32;
        self.sites.push(Some(Site { id, ..site }));
        id
    }

    // The file that an address is mapped from, and the address in it.
    pub(super) fn place(&mut self, thread: u32, pc: u64) -> (String, u64) {
        let unknown = ("[unknown]".to_owned(), pc);
        let Some(space) = self.space(thread) else { return unknown };
        let (process, mappings) = (space.process, space.mappings().unwrap_or_default());
        let Some(mapping) = mappings.iter().find(|one| (one.start..one.end).contains(&pc)) else {
            return unknown;
        };
        if mapping.inode == 0 {
            let name = if mapping.path.is_empty() { "[anonymous]" } else { &mapping.path };
            return (name.to_owned(), pc);
        }
        let offset = pc - mapping.start + mapping.offset;
        let address = self.analysis(process, mapping).address(offset).unwrap_or(offset);
        (mapping.path.clone(), address)
    }

    // Where memory for the stubs of some code is to be.
    fn room_for(&mut self, thread: u32, start: u64, length: u64) -> (u64, u64) {
        let found = self.candidates(thread, start, length);
        let Some(space) = self.space(thread) else { return (0, 0) };
        space.forget(start, start + length);
        let size = (found.len() as u64 * layout::MOST_STUB + SPARE).next_multiple_of(4096);
        match space.gap(start, size) {
            Ok(Some(at)) => (at, size),
            _ => (0, 0),
        }
    }

    // What is to be replaced in some code: where it is, and how.
    fn candidates(&mut self, thread: u32, start: u64, length: u64) -> Vec<Found> {
        let Some(space) = self.space(thread) else { return Vec::new() };
        let (process, mappings) = (space.process, space.mappings().unwrap_or_default());
        let loads = self.options.loads;
        let mut found = Vec::new();
        for mapping in mappings.iter().filter(|one| one.inode != 0 && one.executable) {
            if mapping.start >= start + length || mapping.end <= start {
                continue;
            }
            let analysis = self.analysis(process, mapping);
            let module: Rc<str> = Rc::from(mapping.path.as_str());
            for candidate in &analysis.candidates {
                let is_flush = matches!(Operation::of(&candidate.instruction), Some(Operation::Flush(_)));
                let Some(offset) = analysis.offset(candidate.instruction.ip()) else { continue };
                let Some(at) = offset.checked_sub(mapping.offset).map(|offset| mapping.start + offset) else {
                    continue;
                };
                // Where loads are recorded, so are flushes, as they need the same right.
                if at + 15 < mapping.end && !(is_flush && loads) {
                    found.push(Found { pc: at, candidate: candidate.clone(), module: Rc::clone(&module) });
                }
            }
        }
        found
    }

    fn patch(&mut self, thread: u32, a: [u64; 6]) -> u64 {
        let [start, length, at, size, ..] = a;
        let found = self.candidates(thread, start, length);
        if let Some(space) = self.space(thread) {
            space.add_arena(at, size);
            space.patched.clear();
            space.stage(start, length);
            space.stage(at, size);
        }
        let mut factory = InstructionInfoFactory::new();
        for Found { pc, candidate, module } in found {
            let (bytes, address) = (&candidate.bytes, candidate.instruction.ip());
            let Some(space) = self.space(thread) else { return 0 };
            // What stands there has to be what the file has.
            if space.code(pc, bytes.len()) != *bytes {
                continue;
            }
            let id = self.add(Site { id: 0, module: module.to_string(), address, bytes: bytes.clone() });
            let (instruction, mut site) = site::decode(bytes, pc, &mut factory);
            site.id = id;
            let by = pc.wrapping_sub(address);
            let displaced: Vec<Instruction> = candidate.displaced.iter().map(|one| moved(one, by)).collect();
            let Some(space) = self.space(thread) else { return 0 };
            let chained =
                candidate.chained.map(|next| space.jumps.get(&next.wrapping_add(by)).map(|jump| jump.entry));
            let room = match chained {
                _ if !candidate.can_jump => None,
                None => Some((displaced, None)),
                Some(on) => on.map(|on| (displaced, Some(on))),
            };
            if install(space, &mut site, &instruction, room).is_ok() {
                space.patched.push(site);
            }
        }
        let Some(space) = self.space(thread) else { return 0 };
        let count = space.patched.len() as u64;
        if let Err(error) = space.put_back() {
            self.stop(format!("code at {start:#x} cannot be written: {error}"));
        }
        count
    }

    // The sites that were patched, from one on, as many as are passed on at once.
    fn patched(&mut self, thread: u32, from: u64) -> u64 {
        let Some(space) = self.space(thread) else { return 0 };
        let sites = space.patched.get(from as usize..).unwrap_or_default();
        let sites = sites[..sites.len().min(layout::MOST_PASSED)].to_vec();
        self.memory.pass(&sites);
        sites.len() as u64
    }

    // Whether a descriptor is that of a file that is recorded: its number plus one.
    fn file(&mut self, process: i32, a: [u64; 6]) -> Result<u64, RecordError> {
        let link = format!("/proc/{process}/fd/{}", a[0]);
        let Ok(about) = std::fs::metadata(&link) else { return Ok(0) };
        let identity = (about.dev(), about.ino());
        if let Some(number) = self.files.iter().position(|one| *one == identity) {
            return Ok(number as u64 + 1);
        }
        let Ok(path) = std::fs::read_link(&link) else { return Ok(0) };
        let is_meant = self.options.files.iter().any(|file| {
            path.starts_with(file)
                || std::fs::metadata(file).is_ok_and(|file| (file.dev(), file.ino()) == identity)
        });
        if !is_meant || a[2] == 0 {
            return Ok(0);
        }
        let number = self.files.len();
        if number >= 255 {
            self.stop("more than 255 files are recorded".to_owned());
            return Ok(0);
        }
        self.files.push(identity);
        let id = number as u32;
        self.writer.file(TracedFile { id, path: path.display().to_string(), size: about.len() })?;
        let image =
            |source| RecordError::Process { what: format!("{} cannot be read", path.display()), source };
        self.image(id, &File::open(&link).map_err(image)?).map_err(image)?;
        Ok(number as u64 + 1)
    }

    // What the file holds now.
    fn image(&mut self, id: u32, file: &File) -> io::Result<()> {
        let mut buffer = vec![0; 1 << 20];
        let mut at = 0;
        loop {
            let count = file.read_at(&mut buffer, at)?;
            if count == 0 {
                return Ok(());
            }
            self.writer.image(id, at, &buffer[..count]).map_err(io::Error::other)?;
            at += count as u64;
        }
    }

    fn reason(&mut self, thread: u32, a: [u64; 6]) -> String {
        let [reason, one, other, ..] = a;
        let process = self.memory.ids(thread).0;
        let who = format!("process {process}");
        match reason {
            stop::PARTLY => format!(
                "{who} {}: an access that lies partly in a recorded file, at {other:#x}, cannot be recorded",
                self.shown(thread, one)
            ),
            stop::INSTRUCTION => {
                format!("{who} {}: this instruction cannot be recorded", self.shown(thread, one))
            }
            stop::ALIAS_TAKEN => format!(
                "{who}: the file is mapped at {one:#x}, and the addresses that recording needs beside it are taken"
            ),
            stop::CALL => format!(
                "{who}: system call {one} ({other:#x}) cannot be recorded with buffers or files like these"
            ),
            stop::REGIONS => {
                format!("{who} has more than {} mappings of recorded files", layout::MOST_REGIONS)
            }
            stop::SITES => {
                format!("{who} has more than {} instructions that are recorded", layout::MOST_SITES)
            }
            stop::THREADS => format!("there are more than {} threads", layout::MOST_THREADS),
            stop::SETUP => format!("{who} could not be prepared (step {one}, result {})", other as i64),
            reason => format!(
                "the recorder failed in {who} (reason {reason}, {one:#x}, {other:#x}): a bug of Ringfence"
            ),
        }
    }

    fn shown(&mut self, thread: u32, pc: u64) -> String {
        let bytes = self.space(thread).map(|space| space.code(pc, 15)).unwrap_or_default();
        let (instruction, _) = site::decode(&bytes, pc, &mut InstructionInfoFactory::new());
        let (module, address) = self.place(thread, pc);
        let bytes = &bytes[..instruction.len().min(bytes.len())];
        let hex: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("at {address:#x} of {module} ({:?}, {})", instruction.mnemonic(), hex.join(" "))
    }
}

const fn needs_stub(how: u8) -> bool {
    matches!(how, how::MASKED | how::BIT | how::PUSH_MEMORY | how::POP_MEMORY)
}

// The same instruction at another address: what it says of addresses near it moves along.
fn moved(instruction: &Instruction, by: u64) -> Instruction {
    let mut copy = *instruction;
    copy.set_ip(instruction.ip().wrapping_add(by));
    if instruction.is_ip_rel_memory_operand() {
        copy.set_memory_displacement64(instruction.memory_displacement64().wrapping_add(by));
    }
    if instruction.op0_kind() == iced_x86::OpKind::NearBranch64 {
        copy.set_near_branch64(instruction.near_branch64().wrapping_add(by));
    }
    copy
}

// What is to be replaced: where it is, what, and in which file.
struct Found {
    pc: u64,
    candidate: Candidate,
    module: Rc<str>,
}

// Writes the stub of a site, and replaces the instruction: by a jump where there is room, with what is displaced by it
// and where the stub goes on if not behind that.
fn install(
    space: &mut Space,
    site: &mut layout::Site,
    instruction: &Instruction,
    room: Option<(Vec<Instruction>, Option<u64>)>,
) -> io::Result<()> {
    let full = || io::Error::other("no room for a stub");
    let at = space.room(site.pc, layout::MOST_STUB).ok_or_else(full)?;
    let room = room.filter(|_| site.how == how::STUB);
    let jumps = room.is_some();
    let (displaced, on) = room.unwrap_or_default();
    let parts = Parts { site, instruction, displaced: &displaced, on, guarded: false };
    let made = stub::assemble(&parts, at)
        .filter(|made| made.code.len() as u64 <= layout::MOST_STUB)
        .ok_or_else(full)?;
    space.write(at, &made.code)?;
    space.add_copies(made.copies);
    (site.run, site.after) = (made.run, made.after);
    (site.inner, site.borrowed) = (made.inner, made.borrowed);
    let own = usize::from(site.length) + displaced.iter().map(Instruction::len).sum::<usize>();
    let (entry, length) = (stub::entry(at), own.max(5));
    let jump = jumps.then(|| stub::jump_bytes(site.pc, entry, length)).flatten();
    site.patched = if jump.is_some() { 1 } else { 2 };
    if jump.is_some() {
        space.jumps.insert(site.pc, Jump { entry, displaced, on, length });
    }
    space.replace(site.pc, &jump.unwrap_or_else(|| vec![0xcc]))
}
