//! Traces from the log of valgrind's pmemcheck.
//!
//! The log is what `valgrind --tool=pmemcheck --log-stores=yes` writes; with
//! `--log-stores-stacktraces=yes` stores say where they stand. Its entries are read as pmemcheck's
//! source writes them (`pmemcheck/pmc_main.c` of <https://github.com/pmem/valgrind>). It says less
//! than a recording:
//!
//! - It does not say by which instruction a line was flushed: every flush is taken as `clwb`. A
//!   fence is taken as `sfence`, and pmemcheck writes one behind each `clflush`.
//! - Non-temporal stores are stores. A program that knows of pmemcheck says that they are flushed.
//! - Wide stores are several of 8 bytes. Locked instructions are stores, and no fences.
//! - All threads are one, and no time is known.
//! - What a file held before, and how long it is, is not known: it is taken as zeros up to where it
//!   was mapped.

mod entry;
mod frame;

use std::collections::HashMap;
use std::io::BufRead;

use ringfence_persist::Flush;

use self::entry::{Entries, Entry, Unreadable};
use super::error::RecordingError;
use super::writer::Writer;
use crate::events::{
    Action, Callers, Event, Frame, LINE, Location, Place, Site, Thread, TracedFile,
};

// Where the log does not say in which file a frame lies.
const PROGRAM: &str = "[program]";

/// Why a log cannot be imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// It cannot be read.
    #[error("the log cannot be read: {0}")]
    Io(std::io::Error),
    /// It is not what pmemcheck writes.
    #[error("this is not a log of pmemcheck's stores: entry {number}: {problem}")]
    Entry {
        /// Which entry, from 1; 0 is what stands before the first.
        number: u64,
        /// What is wrong with it.
        problem: String,
    },
    /// The trace cannot be written.
    #[error(transparent)]
    Recording(#[from] RecordingError),
}

impl From<Unreadable> for ImportError {
    fn from(unreadable: Unreadable) -> Self {
        match unreadable {
            Unreadable::Io(error) => Self::Io(error),
            Unreadable::Entry(number, problem) => Self::Entry { number, problem },
        }
    }
}

/// What was imported.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Imported {
    /// Events.
    pub events: u64,
    /// Stores and flushes in memory that the log names no file for: they were left out.
    pub elsewhere: u64,
    /// Whether the log ends as pmemcheck ends it; otherwise its end is missing.
    pub whole: bool,
}

struct Mapped {
    base: u64,
    size: u64,
    at: Place,
}

struct Import<'w> {
    writer: &'w mut Writer,
    done: Imported,
    files: HashMap<String, u32>,
    // By number, from 1.
    sizes: Vec<u64>,
    // The last one comes first: it covers what was mapped there before.
    mapped: Vec<Mapped>,
    // Sites and callers by what the log says of them.
    sites: HashMap<String, u32>,
    stacks: HashMap<Vec<String>, u32>,
}

/// Adds what a log says to a recording that has no events yet. The caller ends the recording.
///
/// # Errors
/// Where the log cannot be read or is none of pmemcheck's, or the recording cannot be written. What
/// was read before is in the recording.
pub fn import(log: impl BufRead, writer: &mut Writer) -> Result<Imported, ImportError> {
    writer.thread(Thread { id: 1, process: 0, tid: 0, name: "all".into() });
    let mut import = Import {
        writer,
        done: Imported::default(),
        files: HashMap::new(),
        sizes: Vec::new(),
        mapped: Vec::new(),
        sites: HashMap::new(),
        stacks: HashMap::new(),
    };
    let mut entries = Entries::new(log);
    while let Some(entry) = entries.next()? {
        if entry == Entry::Stop {
            import.done.whole = true;
            break;
        }
        import.take(entry)?;
    }
    Ok(import.done)
}

impl Import<'_> {
    fn take(&mut self, entry: Entry) -> Result<(), RecordingError> {
        match entry {
            Entry::File { path, base, size, offset } => self.map(path, base, size, offset),
            Entry::Store { address, value, size, frames } => {
                let Some((at, room)) = self.place(address) else { return self.elsewhere() };
                let (site, callers) = self.stack(frames);
                let mut bytes = value.to_le_bytes()[..size as usize].to_vec();
                bytes.truncate(usize::try_from(room).unwrap_or(usize::MAX));
                self.push(site, callers, Action::Store { at, bytes })
            }
            Entry::Flush { address, size } => {
                let pieces = self.pieces(address, size);
                if pieces.is_empty() {
                    return self.elsewhere();
                }
                for (at, size) in pieces {
                    let (first, end) = (at.line().offset, at.offset.saturating_add(size));
                    for offset in (first..end).step_by(LINE as usize) {
                        let at = Place { offset, ..at };
                        self.push(0, 0, Action::Flush { flush: Flush::Clwb, at })?;
                    }
                }
                Ok(())
            }
            Entry::Fence => self.push(0, 0, Action::Sfence),
            Entry::Sync { address, size } => {
                let mut pieces = self.pieces(address, size).into_iter();
                pieces.try_for_each(|(at, size)| {
                    self.push(0, 0, Action::Msync { at, size, began: None })
                })
            }
            Entry::Note | Entry::Stop => Ok(()),
        }
    }

    fn push(&mut self, site: u32, callers: u32, action: Action) -> Result<(), RecordingError> {
        let sequence = self.done.events;
        self.done.events += 1;
        self.writer.push(&Event { sequence, thread: 1, site, callers, action })
    }

    fn elsewhere(&mut self) -> Result<(), RecordingError> {
        self.done.elsewhere += 1;
        Ok(())
    }

    fn map(
        &mut self,
        path: String,
        base: u64,
        size: u64,
        offset: u64,
    ) -> Result<(), RecordingError> {
        let end = offset.saturating_add(size);
        let file = match self.files.get(&path) {
            Some(file) => *file,
            None => {
                let id = self.files.len() as u32 + 1;
                self.writer.file(TracedFile { id, path: path.clone(), size: end, medium: None })?;
                self.files.insert(path, id);
                self.sizes.push(end);
                id
            }
        };
        let known = &mut self.sizes[file as usize - 1];
        if *known < end {
            *known = end;
            self.push(0, 0, Action::Truncate { file, size: end })?;
        }
        let at = Place { file, offset };
        self.mapped.insert(0, Mapped { base, size, at });
        self.push(0, 0, Action::Map { at, address: base, size })
    }

    // The place of an address, and how many bytes are mapped from there on.
    fn place(&self, address: u64) -> Option<(Place, u64)> {
        self.mapped.iter().find_map(|mapped| {
            let within = address.checked_sub(mapped.base).filter(|within| *within < mapped.size)?;
            Some((
                Place { file: mapped.at.file, offset: mapped.at.offset + within },
                mapped.size - within,
            ))
        })
    }

    // What of a range is mapped, mapping by mapping.
    fn pieces(&self, address: u64, size: u64) -> Vec<(Place, u64)> {
        let end = address.saturating_add(size);
        let piece = |mapped: &Mapped| {
            let (first, last) =
                (address.max(mapped.base), end.min(mapped.base.saturating_add(mapped.size)));
            let offset = mapped.at.offset.wrapping_add(first.wrapping_sub(mapped.base));
            let is_on_top =
                || self.place(first).is_some_and(|(at, _)| at == Place { offset, ..mapped.at });
            (first < last && is_on_top()).then(|| (Place { offset, ..mapped.at }, last - first))
        };
        self.mapped.iter().filter_map(piece).collect()
    }

    fn stack(&mut self, frames: Vec<String>) -> (u32, u32) {
        let Some((top, rest)) = frames.split_first() else { return (0, 0) };
        let site = self.site(top);
        if rest.is_empty() {
            return (site, 0);
        }
        if let Some(known) = self.stacks.get(rest) {
            return (site, *known);
        }
        let id = self.stacks.len() as u32 + 1;
        let locations: Vec<Location> =
            rest.iter().filter_map(|text| frame::location(text, PROGRAM)).collect();
        // valgrind gives addresses within calls; those of frames are behind them.
        let frame = |location: &Location| Frame {
            module: location.module.clone(),
            address: location.address.saturating_add(1),
        };
        self.writer.callers(&Callers { id, frames: locations.iter().map(frame).collect() });
        locations.into_iter().for_each(|location| self.writer.location(location));
        self.stacks.insert(rest.to_vec(), id);
        (site, id)
    }

    fn site(&mut self, text: &str) -> u32 {
        if let Some(known) = self.sites.get(text) {
            return *known;
        }
        let Some(location) = frame::location(text, PROGRAM) else { return 0 };
        let id = self.sites.len() as u32 + 1;
        let (module, address) = (location.module.clone(), location.address);
        self.writer.site(&Site { id, module, address, bytes: Vec::new() });
        self.writer.location(location);
        self.sites.insert(text.into(), id);
        id
    }
}
