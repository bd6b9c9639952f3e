//! A process's memory, from the outside: its code, and where stubs lie.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::rc::Rc;

use ringfence_trace_runtime::layout::{MOST_STUB, STUBS, STUBS_SIZE, Site};

use super::analysis::Analysis;
use super::process;
use super::stub::{Copied, Jump};
use super::write_buffer::Staged;

/// A mapping, as `/proc/PID/maps` has it.
#[derive(Debug, Clone)]
pub(super) struct Mapping {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) executable: bool,
    pub(super) offset: u64,
    pub(super) inode: u64,
    pub(super) path: String,
}

impl Mapping {
    /// Whether its bytes are not those of a program file: they may be others later.
    pub(super) fn may_change(&self) -> bool {
        self.inode == 0 || self.path.starts_with("/memfd:")
    }
}

/// Memory for stubs.
#[derive(Debug, Clone)]
struct Arena {
    start: u64,
    end: u64,
    free: u64,
}

pub(super) struct Space {
    pub(super) process: i32,
    memory: File,
    staged: RefCell<Vec<Staged>>,
    // As they were when the process had changed them so often.
    mappings: RefCell<Option<(u64, Rc<[Mapping]>)>>,
    /// How often it has by now.
    pub(super) remapped: u64,
    arenas: Vec<Arena>,
    // Copies of instructions in stubs, by their addresses.
    copies: BTreeMap<u64, Copied>,
    // Stubs that no jump leads to, by the instruction.
    distant: HashMap<u64, u64>,
    /// The program's bytes below what was replaced.
    replaced: BTreeMap<u64, Vec<u8>>,
    /// Jumps, by the addresses of the instructions that they stand for.
    pub(super) jumps: BTreeMap<u64, Jump>,
    /// The jump that is being put into the code.
    pub(super) jump: Vec<u8>,
    /// The sites that a thread is told of next.
    pub(super) patched: Vec<Site>,
    /// Mappings with code when the process began.
    pub(super) first_code: Vec<(u64, u64)>,
}

/// How far a jump reaches, less than it could.
const NEAR: u64 = 0x7000_0000;
/// No replacement is longer: four bytes that have no room for a jump, and an instruction of at most
/// 15.
const LONGEST: u64 = 19;
/// Room that is left between stubs and their neighbours, which may grow.
const MARGIN: u64 = 1 << 20;

impl Space {
    pub(super) fn new(process: i32) -> io::Result<Self> {
        Ok(Self {
            process,
            memory: process::memory(process)?,
            staged: RefCell::default(),
            mappings: RefCell::default(),
            remapped: 0,
            arenas: vec![Arena { start: STUBS, end: STUBS + STUBS_SIZE, free: STUBS }],
            copies: BTreeMap::new(),
            distant: HashMap::new(),
            replaced: BTreeMap::new(),
            jumps: BTreeMap::new(),
            jump: Vec::new(),
            patched: Vec::new(),
            first_code: Vec::new(),
        })
    }

    /// That of a child, which has a copy of everything.
    pub(super) fn copy(&self, process: i32) -> io::Result<Self> {
        Ok(Self {
            process,
            memory: process::memory(process)?,
            staged: RefCell::default(),
            mappings: RefCell::default(),
            remapped: 0,
            arenas: self.arenas.clone(),
            copies: self.copies.clone(),
            distant: self.distant.clone(),
            replaced: self.replaced.clone(),
            jumps: self.jumps.clone(),
            jump: Vec::new(),
            patched: self.patched.clone(),
            first_code: self.first_code.clone(),
        })
    }

    pub(super) fn memory(&self) -> &File {
        &self.memory
    }

    /// All of them, ours included.
    pub(super) fn all_mappings(&self) -> io::Result<Vec<Mapping>> {
        let text = std::fs::read_to_string(format!("/proc/{}/maps", self.process))?;
        Ok(text.lines().filter_map(mapping).collect())
    }

    /// The program's. To read them takes long, so they are kept until it changes them.
    pub(super) fn mappings(&self) -> io::Result<Rc<[Mapping]>> {
        if let Some((when, all)) = &*self.mappings.borrow()
            && *when == self.remapped
        {
            return Ok(Rc::clone(all));
        }
        let all: Rc<[Mapping]> = self.all_mappings()?.into();
        *self.mappings.borrow_mut() = Some((self.remapped, Rc::clone(&all)));
        Ok(all)
    }

    /// The mapping that holds an address.
    pub(super) fn mapping_of(&self, address: u64) -> Option<Mapping> {
        let all = self.mappings().ok()?;
        let next = all.partition_point(|one| one.start <= address);
        all.get(next.checked_sub(1)?).filter(|one| address < one.end).cloned()
    }

    fn read(&self, at: u64, most: usize) -> Vec<u8> {
        let mut bytes = vec![0; most];
        let mut count = self.memory.read_at(&mut bytes, at).unwrap_or(0);
        if count == 0 {
            // A range that ends early is not read at all.
            let rest = (4096 - at % 4096).min(most as u64) as usize;
            count = self.memory.read_at(&mut bytes[..rest], at).unwrap_or(0);
        }
        bytes.truncate(count);
        bytes
    }

    /// Changes a range here first, until [`Space::put_back`].
    pub(super) fn stage(&self, start: u64, size: u64) {
        self.staged.borrow_mut().push(Staged::read_from(&self.memory, start, size));
    }

    /// Writes back what was changed.
    pub(super) fn put_back(&self) -> io::Result<()> {
        let staged = self.staged.take();
        staged.iter().try_for_each(|one| one.put_back(&self.memory))
    }

    /// Bytes of the program at an address, as if nothing were replaced: as many as there are.
    pub(super) fn code(&self, at: u64, most: usize) -> Vec<u8> {
        let staged = self.staged.borrow().iter().find_map(|one| one.read(at, most));
        let mut bytes = staged.unwrap_or_else(|| self.read(at, most));
        let count = bytes.len();
        for (from, old) in self.replaced.range(at.saturating_sub(LONGEST)..at + count as u64) {
            for (offset, byte) in old.iter().enumerate() {
                if let Some(index) = (from + offset as u64).checked_sub(at)
                    && let Some(slot) = bytes.get_mut(index as usize)
                {
                    *slot = *byte;
                }
            }
        }
        bytes
    }

    /// Writes code.
    pub(super) fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        if self.staged.borrow_mut().iter_mut().any(|one| one.write(at, bytes)) {
            return Ok(());
        }
        self.memory.write_all_at(bytes, at)
    }

    /// Replaces the program's own, and remembers it.
    pub(super) fn replace(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let old = self.code(at, bytes.len());
        self.write(at, bytes)?;
        self.replaced.entry(at).or_insert(old);
        Ok(())
    }

    /// Replaces what is behind a byte that was replaced before.
    pub(super) fn replace_more(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let mut old = self.code(at, bytes.len() + 1);
        self.write(at + 1, bytes)?;
        std::mem::swap(self.replaced.entry(at).or_default(), &mut old);
        Ok(())
    }

    /// Whether any byte of a range was replaced, other than by what stands at its beginning.
    pub(super) fn is_replaced(&self, at: u64, length: u64) -> bool {
        let mut before = self.replaced.range(at.saturating_sub(LONGEST)..at + length);
        before.any(|(from, old)| *from != at && from + old.len() as u64 > at)
    }

    /// Code of a range is there anew: what was replaced in it is gone.
    pub(super) fn forget(&mut self, start: u64, end: u64) {
        self.replaced.retain(|at, _| !(start..end).contains(at));
        self.jumps.retain(|at, _| !(start..end).contains(at));
    }

    pub(super) fn add_arena(&mut self, start: u64, size: u64) {
        self.arenas.push(Arena { start, end: start + size, free: start });
    }

    /// Room for a stub that a jump from `near` reaches.
    pub(super) fn room(&mut self, near: u64, size: u64) -> Option<u64> {
        let fits = |arena: &&mut Arena| {
            arena.end - arena.free >= size
                && arena.start.abs_diff(near) < NEAR
                && arena.end.abs_diff(near) < NEAR
        };
        let arena = self.arenas.iter_mut().find(fits)?;
        let at = arena.free;
        arena.free = (at + size).next_multiple_of(16).min(arena.end);
        Some(at)
    }

    /// Room for a stub that no jump leads to.
    pub(super) fn distant_room(&mut self, pc: u64) -> Option<u64> {
        if let Some(at) = self.distant.get(&pc) {
            // Another instruction stood there.
            return Some(*at);
        }
        let arena = self.arenas.first_mut().filter(|arena| arena.end - arena.free >= MOST_STUB)?;
        let at = arena.free;
        arena.free = at + MOST_STUB;
        self.distant.insert(pc, at);
        Some(at)
    }

    /// Where memory for stubs that reach `near` can be mapped.
    pub(super) fn gap(&self, near: u64, size: u64) -> io::Result<Option<u64>> {
        const ENDS: [u64; 2] = [0x1_0000, 0x7fff_ffff_0000];
        let mappings = self.all_mappings()?;
        let starts = mappings.iter().map(|one| one.start).chain([ENDS[1]]);
        let ends = [ENDS[0]].into_iter().chain(mappings.iter().map(|one| one.end));
        let gaps =
            ends.zip(starts).filter(|(from, to)| *to >= from.saturating_add(size + 2 * MARGIN));
        // The two ends of each gap, whichever is nearer. Behind a program lies its heap, which
        // grows: what is below counts as nearer than it is.
        let places =
            gaps.flat_map(|(from, to)| [to - size - MARGIN, from + MARGIN]).map(|at| at & !0xffff);
        let reached = places.filter(|at| at.abs_diff(near).max((at + size).abs_diff(near)) < NEAR);
        Ok(reached.min_by_key(|at| at.abs_diff(near) + if *at > near { NEAR / 2 } else { 0 }))
    }

    pub(super) fn add_copies(&mut self, copies: Vec<Copied>) {
        self.copies.extend(copies.into_iter().map(|one| (one.at, one)));
    }

    /// The copy of an instruction that lies at an address.
    pub(super) fn copied(&self, at: u64) -> Option<&Copied> {
        self.copies.get(&at)
    }

    /// Where an instruction comes from that may be a copy in a stub.
    pub(super) fn origin(&self, at: u64) -> u64 {
        self.copies.get(&at).map_or(at, |one| one.origin)
    }
}

fn mapping(line: &str) -> Option<Mapping> {
    let mut fields = line.splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let rights = fields.next()?;
    let offset = fields.next()?;
    let _device = fields.next()?;
    let inode = fields.next()?.parse().ok()?;
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    Some(Mapping {
        start: number(start)?,
        end: number(end)?,
        executable: rights.as_bytes().get(2) == Some(&b'x'),
        offset: number(offset)?,
        inode,
        path: fields.next().unwrap_or_default().trim_start().to_owned(),
    })
}

/// What is known of program files, by their place in the file system.
#[derive(Default)]
pub(super) struct Analyses(HashMap<(u64, String), Rc<Analysis>>);

impl Analyses {
    /// Of the file behind a mapping. Of what is no program file, nothing is known.
    pub(super) fn of(&mut self, process: i32, mapping: &Mapping) -> Rc<Analysis> {
        let key = (mapping.inode, mapping.path.clone());
        let read = || {
            // As the process has it, even where the file's name is another's by now.
            let range = format!("{:x}-{:x}", mapping.start, mapping.end);
            let file = PathBuf::from(format!("/proc/{process}/map_files/{range}"));
            let bytes =
                std::fs::read(file).or_else(|_| std::fs::read(&mapping.path)).unwrap_or_default();
            Rc::new(Analysis::of(&bytes).unwrap_or_default())
        };
        Rc::clone(self.0.entry(key).or_insert_with(read))
    }
}
