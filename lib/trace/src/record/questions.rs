//! What threads ask the recorder.

use std::rc::Rc;

use iced_x86::InstructionInfoFactory;
use ringfence_trace_runtime::layout::{self, ask, how};

use super::analysis::Analysis;
use super::service::Service;
use super::stub::{self, Parts};
use super::{RecordError, process, site};
use crate::events::Site;

/// Sites of one recording at most: each has a count in every thread's block.
const MOST_SITES: usize = ((layout::BLOCK - layout::COUNTS) / 8) as usize;

impl Service<'_> {
    pub(super) fn answer(
        &mut self,
        thread: u32,
        kind: u32,
        a: [u64; 6],
    ) -> Result<(), RecordError> {
        let (process, tid) = self.memory.ids(thread);
        let (process, tid) = (process as i32, tid as i32);
        let mut answer = [0; 4];
        let mut site = None;
        match kind {
            ask::SITE => site = self.make_site(thread, a[0]),
            ask::START => {
                let first = self
                    .space(thread)
                    .and_then(|space| space.first_code.get(a[0] as usize).copied());
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
                    self.stop(format!(
                        "process {process} cannot be traced in its next program: {error}"
                    ));
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
            ask::CALL => {
                let bytes = self.space(thread).map(|space| space.code(a[0], 2)).unwrap_or_default();
                answer[0] = self.number(thread, a[0], &bytes).into();
            }
            ask::NAMES => self.names_changed(thread, a),
            ask::REFUSED => {
                let why = match a[1] {
                    0 => {
                        "accesses that the kernel makes later to buffers in a file cannot be \
                         recorded"
                    }
                    _ => "what it writes to the standard output cannot be recorded",
                };
                let note = format!("system call {} was refused: {why}", a[0]);
                self.note(note);
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
        let mapping = space.mapping_of(pc);
        let (instruction, mut site) = site::decode(&bytes, pc, &mut InstructionInfoFactory::new());
        let origin = space.origin(pc);
        let length = usize::from(site.length);
        if site.how == how::STUB
            || (how::MOVS..=how::SCAS).contains(&site.how)
            || needs_stub(site.how)
        {
            let parts = Parts {
                site: &site,
                instruction: &instruction,
                displaced: &[],
                on: None,
                guarded: false,
            };
            match space.distant_room(pc).and_then(|at| Some((at, stub::assemble(&parts, at)?))) {
                Some((at, made)) if space.write(at, &made.code).is_ok() => {
                    (site.run, site.after, site.borrowed) = (made.run, made.after, made.borrowed);
                    space.add_copies(made.copies);
                }
                _ => site.how = how::NOT,
            }
        }
        site.may_change = mapping.is_none_or(|one| one.may_change()).into();
        site.bytes[..bytes.len().min(15)].copy_from_slice(&bytes[..bytes.len().min(15)]);
        site.id = self.number(thread, origin, &bytes[..length.min(bytes.len())]);
        Some(site)
    }

    // A number for a site, under which it is told of once an event names it.
    fn number(&mut self, thread: u32, pc: u64, bytes: &[u8]) -> u32 {
        let (module, address) = self.place(thread, pc);
        self.add(Site { id: 0, module, address, bytes: bytes.to_vec() })
    }

    pub(super) fn add(&mut self, site: Site) -> u32 {
        if self.sites.len() >= MOST_SITES {
            self.stop(format!("the program has more than {MOST_SITES} instructions to record"));
            return 0;
        }
        let id = self.sites.len() as u32;
        self.sites.push(Some(Site { id, ..site }));
        id
    }

    /// What is known of the program file that an address is mapped from, and the address in it.
    pub(super) fn in_file(&mut self, thread: u32, pc: u64) -> Option<(Rc<Analysis>, u64)> {
        let space = self.space(thread)?;
        let (process, mapping) =
            (space.process, space.mapping_of(pc).filter(|one| one.inode != 0)?);
        let analysis = self.analyses.of(process, &mapping);
        let address = analysis.address(pc - mapping.start + mapping.offset)?;
        Some((analysis, address))
    }

    /// The file that an address is mapped from, and the address in it.
    pub(super) fn place(&mut self, thread: u32, pc: u64) -> (String, u64) {
        let Some(mapping) = self.space(thread).and_then(|space| space.mapping_of(pc)) else {
            return ("[unknown]".to_owned(), pc);
        };
        if mapping.inode == 0 {
            let name = if mapping.path.is_empty() { "[anonymous]" } else { &mapping.path };
            return (name.to_owned(), pc);
        }
        let address = self.in_file(thread, pc).map(|(_, address)| address);
        (mapping.path, address.unwrap_or(pc - mapping.start + mapping.offset))
    }
}

const fn needs_stub(how: u8) -> bool {
    matches!(how, how::MASKED | how::BIT | how::PUSH_MEMORY | how::POP_MEMORY)
}
