//! Instructions that access a file often: a jump to their stub takes their place, where there is
//! room.
//!
//! While other threads may run the same code, three steps keep each of them from seeing half a
//! jump: a breakpoint for the first byte, then the others, then the first; between them, the
//! process makes every thread see what is there (Intel SDM volume 3A, section 9.1.3, "Handling
//! self- and cross-modifying code").

use iced_x86::{Instruction, InstructionInfoFactory};
use ringfence_trace_runtime::layout;

use super::service::Service;
use super::site;
use super::stub::{self, BREAKPOINT, JUMP, Jump, Parts};

impl Service<'_> {
    /// Whether the instruction is replaced, as the runtime is told, and its site.
    pub(super) fn hot(&mut self, thread: u32, a: [u64; 6]) -> (u64, Option<layout::Site>) {
        let [pc, is_shared, id, ..] = a;
        self.replace_hot(thread, pc, is_shared != 0, id as u32)
            .map_or((0, None), |(answer, site)| (answer, Some(site)))
    }

    fn replace_hot(
        &mut self,
        thread: u32,
        pc: u64,
        is_shared: bool,
        id: u32,
    ) -> Option<(u64, layout::Site)> {
        let space = self.space(thread)?;
        let bytes = space.code(pc, 15);
        let (instruction, mut site) = site::decode(&bytes, pc, &mut InstructionInfoFactory::new());
        if !stub::can_be_guarded(&site, &instruction) {
            return None;
        }
        let copied = space.copied(pc).cloned();
        if copied.is_none() && space.mapping_of(pc)?.may_change() {
            return None;
        }
        let old = space.jumps.get(&pc).cloned();
        let (displaced, on) = match (&old, instruction.len()) {
            (Some(jump), _) => (jump.displaced.clone(), jump.on),
            // Behind it, the stub has more of the program, and then a jump.
            _ if copied.is_some() && is_shared => return None,
            _ if copied.is_some() => copied.map(|one| (one.rest, Some(one.on)))?,
            (_, JUMP..) => (Vec::new(), None),
            _ if is_shared => return None,
            _ => self.behind(thread, pc)?,
        };
        let own = instruction.len() + displaced.iter().map(Instruction::len).sum::<usize>();
        let length = old.map_or(own.max(JUMP), |jump| jump.length);
        let space = self.space(thread)?;
        // Where the stub goes on with that of the next instruction, that one's bytes are the
        // jump's, too.
        if space.is_replaced(pc, own as u64) {
            return None;
        }
        let at = space.room(pc, layout::MOST_STUB)?;
        site.id = id;
        let parts = Parts {
            site: &site,
            instruction: &instruction,
            displaced: &displaced,
            on,
            guarded: true,
        };
        let made = stub::assemble(&parts, at)
            .filter(|made| made.code.len() as u64 <= layout::MOST_STUB)?;
        let jump = stub::jump_bytes(pc, stub::entry(at), length)?;
        space.write(at, &made.code).ok()?;
        space.add_copies(made.copies);
        (site.run, site.after) = (made.run, made.after);
        (site.inner, site.borrowed) = (made.inner, made.borrowed);
        (site.patched, site.hits) = (1, layout::HOT);
        space.jumps.insert(pc, Jump { entry: stub::entry(at), displaced, on, length });
        if is_shared {
            space.replace(pc, &[BREAKPOINT]).ok()?;
            space.jump = jump;
            Some((2, site))
        } else {
            space.replace(pc, &jump).ok()?;
            Some((1, site))
        }
    }

    /// The bytes behind the first.
    pub(super) fn hot_tail(&mut self, thread: u32, pc: u64) {
        let Some(space) = self.space(thread) else { return };
        let jump = space.jump.clone();
        if let Err(error) = space.replace_more(pc, &jump[1..]) {
            self.stop(format!("code at {pc:#x} cannot be written: {error}"));
        }
    }

    /// The first byte.
    pub(super) fn hot_head(&mut self, thread: u32, pc: u64) {
        let Some(space) = self.space(thread) else { return };
        let jump = space.jump.clone();
        if let Err(error) = space.write(pc, &jump[..1]) {
            self.stop(format!("code at {pc:#x} cannot be written: {error}"));
        }
    }

    // The instructions behind one that make room for a jump, if nothing leads to them.
    fn behind(&mut self, thread: u32, pc: u64) -> Option<(Vec<Instruction>, Option<u64>)> {
        let (analysis, address) = self.in_file(thread, pc)?;
        let body = analysis.body_at(address)?;
        let start = pc.checked_sub(address - body.start)?;
        let space = self.space(thread)?;
        let code = space.code(start, (body.end - body.start) as usize);
        analysis.displaced(&code, body, (start, pc), &space.jumps)
    }
}
