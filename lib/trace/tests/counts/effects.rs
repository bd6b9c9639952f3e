//! What an instruction did, as any of the tracers tells it, and what a recording has to say of it.
//!
//! The tables here are not those of the crate, so that they cannot share its mistakes.

use std::collections::HashSet;

use iced_x86::{Instruction, Mnemonic, OpKind};

/// Where an instruction stands: in which file, by its inode, and how many bytes from that file's
/// beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Site {
    pub inode: u64,
    pub offset: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum What {
    Store,
    NonTemporal,
    Locked,
    Clflush,
    Clflushopt,
    Clwb,
    Sfence,
    Mfence,
}

/// Bytes of the traced file: from where, and how many.
pub type Bytes = (u64, u64);

/// What a recording says: no bytes where it is about no place in the file, and none in number where
/// it is a flush's operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Entry {
    pub site: Site,
    pub what: What,
    pub bytes: Option<Bytes>,
}

/// What is known of a flush's operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Line {
    /// It is no flush, or its address was not seen.
    Unknown,
    Elsewhere,
    At(u64),
}

/// An instruction that was executed, or a part of what it did.
#[derive(Debug, Clone)]
pub struct Happened {
    /// How many instructions its thread had executed.
    pub turn: u64,
    pub site: Site,
    pub instruction: Instruction,
    /// What it stored in the file.
    pub stores: Vec<Bytes>,
    pub line: Line,
}

impl What {
    pub fn of(instruction: &Instruction) -> Self {
        let name = format!("{:?}", instruction.mnemonic()).to_lowercase();
        let memory = instruction.op_kinds().any(|kind| kind == OpKind::Memory);
        match name.trim_start_matches('v') {
            _ if instruction.has_lock_prefix() => Self::Locked,
            "xchg" if memory => Self::Locked,
            "clflush" => Self::Clflush,
            "clflushopt" => Self::Clflushopt,
            "clwb" => Self::Clwb,
            "sfence" => Self::Sfence,
            "mfence" => Self::Mfence,
            "movntdqa" => Self::Store,
            name if name.starts_with("movnt")
                || name.starts_with("maskmov") && !name.contains("ps") =>
            {
                Self::NonTemporal
            }
            _ => Self::Store,
        }
    }

    pub fn is_flush(self) -> bool {
        matches!(self, Self::Clflush | Self::Clflushopt | Self::Clwb)
    }
}

impl Happened {
    /// Whether it stores only where a comparison says so, which a tracer that does not see the
    /// flags cannot tell.
    pub fn compares(&self) -> bool {
        use Mnemonic as M;
        matches!(self.instruction.mnemonic(), M::Cmpxchg | M::Cmpxchg8b | M::Cmpxchg16b)
    }

    // Whether what comes next is of the same instruction. One that is repeated takes a turn for
    // each element.
    fn goes_on(&self, next: &Self) -> bool {
        let repeated = self.instruction.has_rep_prefix() || self.instruction.has_repne_prefix();
        self.site == next.site && (self.turn == next.turn || repeated && self.turn + 1 == next.turn)
    }

    fn add(&mut self, more: Self) {
        self.turn = more.turn;
        for (from, size) in more.stores {
            match self.stores.last_mut() {
                Some((start, bytes)) if *start + *bytes == from => *bytes += size,
                // Of strings that are stored downwards.
                Some((start, bytes)) if from + size == *start => {
                    (*start, *bytes) = (from, *bytes + size)
                }
                _ => self.stores.push((from, size)),
            }
        }
    }
}

/// Makes one of what each instruction did, in the order of a thread.
pub fn whole(parts: Vec<Happened>) -> Vec<Happened> {
    let mut all: Vec<Happened> = Vec::new();
    for part in parts {
        match all.last_mut() {
            Some(last) if last.goes_on(&part) => last.add(part),
            _ => {
                all.push(Happened { stores: Vec::new(), ..part.clone() });
                all.last_mut().expect("it is there").add(part);
            }
        }
    }
    all
}

/// What a recording has of a thread: all stores in the file, flushes of its lines and fences. Of
/// locked instructions, those that store in the file, and those before which the thread has stored
/// or flushed since its last fence or locked instruction (`docs/reference/trace-format.md`).
/// Of `except`, nothing is said.
///
/// A flush whose address was not seen is taken for one of the file: if one were not, the recording
/// would have one less.
pub fn expected(happened: &[Happened], except: &HashSet<Site>) -> Vec<Entry> {
    let mut waits = false;
    let mut entries = Vec::new();
    for one in happened {
        let (site, what) = (one.site, What::of(&one.instruction));
        let stores = one.stores.iter().map(|bytes| Entry { site, what, bytes: Some(*bytes) });
        let mut new: Vec<Entry> = stores.collect();
        match what {
            What::Sfence | What::Mfence => {
                new.push(Entry { site, what, bytes: None });
                waits = false;
            }
            What::Clflush | What::Clflushopt | What::Clwb if one.line == Line::Elsewhere => {}
            What::Clflush | What::Clflushopt | What::Clwb => {
                let bytes = if let Line::At(offset) = one.line { Some((offset, 0)) } else { None };
                new.push(Entry { site, what, bytes });
                waits = true;
            }
            What::Locked => {
                if new.is_empty() && waits {
                    new.push(Entry { site, what, bytes: None });
                }
                waits = false;
            }
            What::Store | What::NonTemporal => waits |= !new.is_empty(),
        }
        entries.extend(new.into_iter().filter(|entry| !except.contains(&entry.site)));
    }
    entries
}
