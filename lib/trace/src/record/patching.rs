//! Instructions that must be recorded whatever they access: replaced before the code that they
//! stand in runs.

use std::io;
use std::rc::Rc;

use iced_x86::{Instruction, InstructionInfoFactory, OpKind};
use ringfence_trace_runtime::layout::{self, how};

use super::analysis::{Candidate, Unseen};
use super::service::Service;
use super::site;
use super::space::Space;
use super::stub::{self, BREAKPOINT, JUMP, Jump, Parts};
use crate::code::Operation;
use crate::events::{self, Site};

/// Memory for stubs of what is found while the program runs.
const SPARE: u64 = 256 << 10;

impl Service<'_> {
    // Where memory for the stubs of some code is to be.
    pub(super) fn room_for(&mut self, thread: u32, start: u64, length: u64) -> (u64, u64) {
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
        let (process, mappings) = (space.process, space.mappings().ok());
        let loads = self.options.loads;
        let (mut found, mut unseen) = (Vec::new(), Vec::new());
        for mapping in mappings
            .iter()
            .flat_map(|all| all.iter())
            .filter(|one| one.inode != 0 && one.executable)
        {
            if mapping.start >= start + length || mapping.end <= start {
                continue;
            }
            let analysis = self.analyses.of(process, mapping);
            let module: Rc<str> = Rc::from(mapping.path.as_str());
            unseen.push((mapping.path.clone(), analysis.unseen));
            for candidate in &analysis.candidates {
                let is_flush =
                    matches!(Operation::of(&candidate.instruction), Some(Operation::Flush(_)));
                let Some(offset) = analysis.offset(candidate.instruction.ip()) else { continue };
                let Some(at) =
                    offset.checked_sub(mapping.offset).map(|offset| mapping.start + offset)
                else {
                    continue;
                };
                // Where loads are recorded, so are flushes, as they need the same right.
                if at + 15 < mapping.end && !(is_flush && loads) {
                    found.push(Found {
                        pc: at,
                        candidate: candidate.clone(),
                        module: Rc::clone(&module),
                    });
                }
            }
        }
        for (module, Unseen { flushes, fences, .. }) in unseen {
            let flushes = if loads { 0 } else { flushes };
            if flushes + fences > 0 && self.told_unseen.insert(module.clone()) {
                self.writer.unseen(events::Unseen { module, flushes, fences });
            }
        }
        found
    }

    pub(super) fn patch(&mut self, thread: u32, a: [u64; 6]) -> u64 {
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
            let id =
                self.add(Site { id: 0, module: module.to_string(), address, bytes: bytes.clone() });
            let (instruction, mut site) = site::decode(bytes, pc, &mut factory);
            site.id = id;
            let by = pc.wrapping_sub(address);
            let displaced: Vec<Instruction> =
                candidate.displaced.iter().map(|one| moved(one, by)).collect();
            let Some(space) = self.space(thread) else { return 0 };
            let chained = candidate
                .chained
                .map(|next| space.jumps.get(&next.wrapping_add(by)).map(|jump| jump.entry));
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
    pub(super) fn patched(&mut self, thread: u32, from: u64) -> u64 {
        let Some(space) = self.space(thread) else { return 0 };
        let sites = space.patched.get(from as usize..).unwrap_or_default();
        let sites = sites[..sites.len().min(layout::MOST_PASSED)].to_vec();
        self.memory.pass(&sites);
        sites.len() as u64
    }
}

// The same instruction at another address: what it says of addresses near it moves along.
fn moved(instruction: &Instruction, by: u64) -> Instruction {
    let mut copy = *instruction;
    copy.set_ip(instruction.ip().wrapping_add(by));
    if instruction.is_ip_rel_memory_operand() {
        copy.set_memory_displacement64(instruction.memory_displacement64().wrapping_add(by));
    }
    if instruction.op0_kind() == OpKind::NearBranch64 {
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

// Writes the stub of a site, and replaces the instruction: by a jump where there is room, with what
// is displaced by it and where the stub goes on if not behind that.
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
    let (entry, length) = (stub::entry(at), own.max(JUMP));
    let jump = jumps.then(|| stub::jump_bytes(site.pc, entry, length)).flatten();
    site.patched = if jump.is_some() { 1 } else { 2 };
    if jump.is_some() {
        space.jumps.insert(site.pc, Jump { entry, displaced, on, length });
    }
    space.replace(site.pc, &jump.unwrap_or_else(|| vec![BREAKPOINT]))
}
