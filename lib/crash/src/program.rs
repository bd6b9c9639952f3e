//! A recorded program, as the crash model takes it: instructions on words, in one memory.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

use regex_lite::Regex;
use ringfence_crashcheck::{Kind, WORD, Write};
use ringfence_persist::Flush;
use ringfence_trace::census::dynamic::is_own_module;
use ringfence_trace::events::{Action, Event, Location, Medium, Place, TracedFile};
use ringfence_trace::recording::{Reader, RecordingError};

use rustc_hash::FxHashMap;

use crate::worker::ImageFile;

/// From one file to the next in memory: no file is longer.
const FILE: usize = 1 << 40;
const LINE: u64 = 64;

/// A recorded program.
#[derive(Debug, Clone, Default)]
pub struct Program {
    /// The files that it mapped.
    pub files: Vec<ProgramFile>,
    /// What it did, in order.
    pub steps: Vec<Step>,
    /// The lines that count as acknowledgements, and in which step the write that has each ended.
    pub acknowledged: Vec<Acknowledged>,
    /// Words that were stored to, in order: their numbers in memory.
    pub words: Vec<usize>,
    /// What each of them held before.
    pub initial: Vec<u64>,
    /// The places in its code, by [`Step::site`] less 1.
    pub places: Vec<String>,
    /// Threads that did any of it.
    pub threads: usize,
    /// Writes that had several lines in one.
    pub batches: usize,
    /// How many of the steps are those of the program that was recorded; those behind it are of a
    /// recovery after a kill.
    pub killed_at: Option<usize>,
}

/// A file that a recorded program mapped.
#[derive(Debug, Clone)]
pub struct ProgramFile {
    /// Its path.
    pub path: String,
    /// Bytes, when its recording began.
    pub size: u64,
    /// What it is stored on.
    pub medium: Option<Medium>,
    /// What it held then, but for zeros: pages by their offsets.
    pub pages: BTreeMap<u64, Vec<u8>>,
}

/// One thing that the program did.
#[derive(Debug, Clone, Copy)]
pub struct Step {
    /// Which thread.
    pub thread: u32,
    /// Where in the code ([`Program::at`]): instructions of one line are at one place. 0: not
    /// known.
    pub site: u32,
    /// What.
    pub did: Did,
}

/// What a program did.
#[derive(Debug, Clone, Copy)]
pub enum Did {
    /// An instruction.
    Instruction(Kind),
    /// A call begins that makes these bytes of memory durable: its number, and the bytes.
    SyncBegins(u32, usize, usize),
    /// It ends.
    SyncEnds(u32),
    /// A file has another size, which counts as durable at once.
    Size(usize, u64),
    /// It has printed what counts as an acknowledgement, by its number.
    Acknowledged(usize),
}

/// What a program printed in one call that completes a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acknowledged {
    /// The lines, without line ends.
    pub lines: Vec<String>,
    /// Which thread; [`ALL_THREADS`] for what a recovery printed.
    pub thread: u32,
}

/// Stands for all threads in place of a thread's number.
pub const ALL_THREADS: u32 = u32::MAX;
/// What is added to the numbers of a recovery's threads.
pub const OF_RECOVERY: u32 = 1 << 30;

/// Why a recording cannot be examined.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// It cannot be read.
    #[error(transparent)]
    Recording(#[from] RecordingError),
    /// A file is longer than any that can be examined.
    #[error("{0} has data beyond 1 TiB, which cannot be examined")]
    TooLong(String),
    /// A name has changed.
    #[error(
        "the program {0}, and the order in which names become durable is not examined; ask only \
         for files that keep their names"
    )]
    Names(String),
}

impl Program {
    /// Reads a recording. Lines that fit `acknowledge` count as acknowledgements; without it all
    /// do.
    ///
    /// # Errors
    /// Where it cannot be read, or has a file that is too long.
    pub fn of(reader: &Reader, acknowledge: Option<&Regex>) -> Result<Self, ProgramError> {
        let mut program = Self::default();
        for file in &reader.manifest().files {
            let (path, size, medium) = (file.path.clone(), file.size, file.medium);
            program.files.push(ProgramFile { path, size, medium, pages: BTreeMap::new() });
        }
        for page in reader.images() {
            let (at, bytes) = page?;
            let file = &mut program.files[at.file as usize];
            if at.offset >= FILE as u64 {
                return Err(ProgramError::TooLong(file.path.clone()));
            }
            file.pages.insert(at.offset, bytes);
        }
        let mut building = Building::new(&mut program, acknowledge);
        building.add_all(reader)?;
        building.end();
        Ok(program)
    }

    /// Refuses a recording in which the name of a file has changed.
    ///
    /// # Errors
    /// Says which.
    pub fn keeps_names(reader: &Reader) -> Result<(), ProgramError> {
        let change = reader.manifest().name_change.clone();
        change.map_or(Ok(()), |change| Err(ProgramError::Names(change)))
    }

    /// The program up to a kill behind so many steps, and then a recovery, which has printed this
    /// by its end.
    ///
    /// # Errors
    /// Where the recording of the recovery cannot be read, or has a file that is too long. Without
    /// one, recovery has stored nothing.
    pub fn killed(
        &self,
        steps: usize,
        recovery: Option<&Reader>,
        printed: Vec<String>,
    ) -> Result<Self, ProgramError> {
        let acknowledged = self.steps[..steps].iter().rev().find_map(|step| match step.did {
            Did::Acknowledged(number) => Some(number + 1),
            _ => None,
        });
        let mut program = Self {
            files: self.files.clone(),
            steps: self.steps[..steps].to_vec(),
            acknowledged: self.acknowledged[..acknowledged.unwrap_or(0)].to_vec(),
            places: self.places.clone(),
            killed_at: Some(steps),
            ..Self::default()
        };
        let mut building = Building::new(&mut program, None);
        building.words = self.words.iter().copied().collect();
        building.take_over();
        if let Some(reader) = recovery {
            Self::keeps_names(reader)?;
            let files = &reader.manifest().files;
            building.files = files.iter().map(|file| self.number(file)).collect();
            building.added = OF_RECOVERY;
            building.add_all(reader)?;
        }
        let number = building.program.acknowledged.len();
        building.program.acknowledged.push(Acknowledged { lines: printed, thread: ALL_THREADS });
        let did = Did::Acknowledged(number);
        building.program.steps.push(Step { thread: OF_RECOVERY, site: 0, did });
        building.end();
        Ok(program)
    }

    // The number of a file that another recording has, too.
    fn number(&self, other: &TracedFile) -> Option<usize> {
        self.files.iter().position(|file| file.path == other.path)
    }

    /// Writes what each file held before the program stored to it, into files of a folder with the
    /// files' numbers as names.
    ///
    /// # Errors
    /// What the kernel reports.
    pub fn write_before(&self, folder: &Path) -> io::Result<Vec<ImageFile>> {
        let one = |(number, file): (usize, &ProgramFile)| {
            let initial = folder.join(number.to_string());
            let image = File::create(&initial)?;
            image.set_len(file.size)?;
            for (at, page) in &file.pages {
                let room = file.size.saturating_sub(*at).min(page.len() as u64) as usize;
                image.write_all_at(&page[..room], *at)?;
            }
            Ok(ImageFile { path: file.path.clone().into(), initial })
        };
        self.files.iter().enumerate().map(one).collect()
    }

    /// The name of a place in the code.
    pub fn at(&self, site: u32) -> &str {
        let number = (site as usize).checked_sub(1);
        number.and_then(|number| self.places.get(number)).map_or("unknown", String::as_str)
    }

    /// The place of a word among [`words`](Self::words), if it was stored to.
    pub fn place(&self, word: usize) -> Option<usize> {
        self.words.binary_search(&word).ok()
    }

    /// A word's file, and the offset in it.
    pub fn file_of(word: usize) -> (usize, u64) {
        let byte = word * WORD;
        (byte / FILE, (byte % FILE) as u64)
    }

    /// How many instructions stored, flushed or fenced.
    pub fn instructions(&self) -> impl Iterator<Item = Kind> + '_ {
        self.steps.iter().filter_map(|step| match step.did {
            Did::Instruction(kind) => Some(kind),
            _ => None,
        })
    }

    // What a word held before.
    fn initial_of(&self, word: usize) -> u64 {
        let (file, offset) = Self::file_of(word);
        let pages = &self.files[file].pages;
        let Some((at, page)) = pages.range(..=offset).next_back() else { return 0 };
        let from = (offset - at) as usize;
        let mut bytes = [0; WORD];
        for (to, byte) in bytes.iter_mut().zip(page.get(from..).unwrap_or_default()) {
            *to = *byte;
        }
        u64::from_le_bytes(bytes)
    }
}

fn linear(at: Place) -> usize {
    at.file as usize * FILE + at.offset as usize
}

// Numbers of this reader's own calls are not below it.
const OWN: u32 = 1 << 31;

// Calls that make something durable, by the event that came last before each began: their numbers,
// and the bytes.
type Calls = BTreeMap<u64, Vec<(u32, Range<usize>)>>;

fn calls(reader: &Reader) -> Result<Calls, RecordingError> {
    let mut calls = Calls::new();
    let mut number = 0;
    for event in reader.events() {
        let event = event?;
        let (Action::Msync { .. }, Some((file, range))) = (&event.action, event.action.settles())
        else {
            continue;
        };
        let within = |offset: u64| file as usize * FILE + (offset as usize).min(FILE);
        let began = event.action.began().unwrap_or(event.sequence - 1);
        let bytes = within(range.start)..within(range.end);
        calls.entry(began).or_default().push((number, bytes));
        number += 1;
    }
    Ok(calls)
}

// The name of an instruction's place. In a library of the system, it is the call from outside, and
// the function.
fn place(reader: &Reader, site: u32, callers: u32) -> Option<String> {
    let site = reader.site(site)?;
    let location = reader.location(&site.module, site.address);
    let mut frames = reader.callers(callers).into_iter().flat_map(|callers| &callers.frames);
    let outside = match is_own_module(&site.module) {
        true => None,
        false => frames.find(|frame| is_own_module(&frame.module)),
    };
    let Some(outside) = outside else { return Some(named(&location)) };
    let call = named(&reader.location(&outside.module, outside.call()));
    Some(match &location.function {
        Some(function) => format!("{call} in {function}"),
        None => format!("{call} in {}", named(&location)),
    })
}

// Without a line, it takes the offset to tell instructions apart.
fn named(location: &Location) -> String {
    if location.source().is_some() { location.name() } else { location.to_string() }
}

struct Building<'p> {
    program: &'p mut Program,
    // The program's numbers of the recording's files; those that are not there are left out.
    files: Vec<Option<usize>>,
    // What is added to the recording's threads.
    added: u32,
    // The numbers of places by their names, and by an instruction and its callers.
    named: FxHashMap<String, u32>,
    sites: FxHashMap<(u32, u32), u32>,
    acknowledge: Option<&'p Regex>,
    calls: u32,
    // The number of the recording's first.
    first_call: u32,
    // Calls of this reader's own, which are over at once.
    own_calls: u32,
    sizes: Vec<u64>,
    words: BTreeSet<usize>,
    threads: BTreeSet<u32>,
    // What was printed without a line end.
    begun: Vec<u8>,
}

impl<'p> Building<'p> {
    fn new(program: &'p mut Program, acknowledge: Option<&'p Regex>) -> Self {
        let sizes = program.files.iter().map(|file| file.size).collect();
        let files = (0..program.files.len()).map(Some).collect();
        Self {
            program,
            files,
            added: 0,
            named: FxHashMap::default(),
            sites: FxHashMap::default(),
            acknowledge,
            calls: 0,
            first_call: 0,
            own_calls: u32::MAX,
            sizes,
            words: BTreeSet::new(),
            threads: BTreeSet::new(),
            begun: Vec::new(),
        }
    }

    // Adds all events of a recording.
    fn add_all(&mut self, reader: &Reader) -> Result<(), ProgramError> {
        let calls = calls(reader)?;
        for event in reader.events() {
            let Some(mut event) = self.own(event?) else { continue };
            event.site = self.site(reader, event.site, event.callers);
            self.add(&event)?;
            for (call, range) in calls.get(&event.sequence).into_iter().flatten() {
                let place = |byte: usize| {
                    let file = self.files.get(byte / FILE).copied().flatten()?;
                    Some(file * FILE + byte % FILE)
                };
                if let (Some(from), length) = (place(range.start), range.len()) {
                    let did = Did::SyncBegins(*call + self.first_call, from, from + length);
                    self.step(&event, did);
                }
            }
        }
        Ok(())
    }

    // An event of the recording in the program's own numbers; none of a file that it lacks.
    fn own(&self, mut event: Event) -> Option<Event> {
        let own = |file: &mut u32| {
            let number = self.files.get(*file as usize).copied().flatten();
            number.map(|number| *file = number as u32)
        };
        match &mut event.action {
            Action::Store { at, .. }
            | Action::NonTemporal { at, .. }
            | Action::Load { at, .. }
            | Action::Flush { at, .. }
            | Action::Msync { at, .. }
            | Action::SyncRange { at, .. }
            | Action::Map { at, .. }
            | Action::Unmap { at, .. }
            | Action::Write { at, .. }
            | Action::Locked { stores: Some((at, _)) } => own(&mut at.file)?,
            Action::Truncate { file, .. } => own(file)?,
            Action::Locked { stores: None }
            | Action::Sfence
            | Action::Mfence
            | Action::Output { .. } => {}
        }
        event.thread += self.added;
        Some(event)
    }

    // The program's number for the place of an instruction: every process has other numbers for it.
    fn site(&mut self, reader: &Reader, site: u32, callers: u32) -> u32 {
        if let Some(number) = self.sites.get(&(site, callers)) {
            return *number;
        }
        let number = place(reader, site, callers).map_or(0, |name| {
            let next = self.named.len() as u32 + 1;
            *self.named.entry(name.clone()).or_insert_with(|| {
                self.program.places.push(name);
                next
            })
        });
        self.sites.insert((site, callers), number);
        number
    }

    // Takes over the places, the sizes and the numbers of calls from what is there.
    fn take_over(&mut self) {
        let numbered = self.program.places.iter().cloned().zip(1..);
        self.named = numbered.collect();
        for step in &self.program.steps {
            match step.did {
                Did::Size(file, size) => self.sizes[file] = size,
                Did::SyncBegins(call, ..) if call < OWN => self.calls = self.calls.max(call + 1),
                Did::SyncBegins(call, ..) => self.own_calls = self.own_calls.min(call - 1),
                _ => {}
            }
            self.threads.insert(step.thread);
        }
        self.first_call = self.calls;
    }

    fn step(&mut self, event: &Event, did: Did) {
        self.program.steps.push(Step { thread: event.thread, site: event.site, did });
    }

    fn instruction(&mut self, event: &Event, kind: Kind) {
        self.threads.insert(event.thread);
        self.words.extend(kind.write().map(|write| write.word));
        self.step(event, Did::Instruction(kind));
    }

    fn add(&mut self, event: &Event) -> Result<(), ProgramError> {
        if let Some(at) = event.action.at()
            && at.offset >= FILE as u64
            && !matches!(event.action, Action::Msync { .. } | Action::SyncRange { .. })
        {
            return Err(ProgramError::TooLong(self.program.files[at.file as usize].path.clone()));
        }
        match &event.action {
            Action::Store { at, bytes } => self.store(event, *at, bytes, Kind::Store),
            Action::NonTemporal { at, bytes } => self.store(event, *at, bytes, Kind::Stream),
            Action::Locked { stores: Some((at, bytes)) } if !bytes.is_empty() => {
                self.instruction(event, Kind::LockedOnly);
                self.store(event, *at, bytes, Kind::Store);
            }
            Action::Locked { .. } => self.instruction(event, Kind::LockedOnly),
            Action::Flush { flush, at } => {
                let line = linear(*at) / LINE as usize;
                let kind = match flush {
                    Flush::Clflush => Kind::Flush(line),
                    _ => Kind::Flushopt(line),
                };
                self.instruction(event, kind);
            }
            Action::Sfence => self.instruction(event, Kind::Sfence),
            Action::Mfence => self.instruction(event, Kind::Mfence),
            Action::Msync { .. } => {
                self.step(event, Did::SyncEnds(self.calls));
                self.calls += 1;
            }
            Action::Write { at, bytes } => {
                let (file, end) = (at.file as usize, at.offset + bytes.len() as u64);
                if end > self.sizes[file] {
                    self.resize(event, file, end);
                }
                self.store(event, *at, bytes, Kind::Store);
            }
            Action::Truncate { file, size } => self.truncate(event, *file as usize, *size),
            Action::Output { bytes } => self.output(event, bytes),
            Action::Load { .. }
            | Action::SyncRange { .. }
            | Action::Map { .. }
            | Action::Unmap { .. } => {}
        }
        Ok(())
    }

    // Word by word, as far as the file goes: mapped memory behind its end is no part of it.
    fn store(&mut self, event: &Event, at: Place, bytes: &[u8], kind: fn(Write) -> Kind) {
        let room = self.sizes[at.file as usize].saturating_sub(at.offset);
        let bytes = &bytes[..bytes.len().min(usize::try_from(room).unwrap_or(usize::MAX))];
        let (mut from, mut rest) = (linear(at), bytes);
        while !rest.is_empty() {
            let within = from % WORD;
            let (now, later) = rest.split_at(rest.len().min(WORD - within));
            let mut write = Write { word: from / WORD, bytes: [0; WORD], mask: 0 };
            write.bytes[within..within + now.len()].copy_from_slice(now);
            write.mask = (((1u16 << now.len()) - 1) << within) as u8;
            self.instruction(event, kind(write));
            (from, rest) = (from + now.len(), later);
        }
    }

    fn resize(&mut self, event: &Event, file: usize, size: u64) {
        self.sizes[file] = size;
        self.step(event, Did::Size(file, size));
    }

    // What lies behind a new end is gone for good.
    fn truncate(&mut self, event: &Event, file: usize, size: u64) {
        if size < self.sizes[file] {
            let (from, end) = (file * FILE + size as usize, (file + 1) * FILE);
            let stored = self.words.range(from / WORD..end / WORD).copied();
            let of_pages = self.program.files[file].pages.iter().flat_map(|(at, page)| {
                let first = (file * FILE + *at as usize) / WORD;
                first..first + page.len() / WORD
            });
            let gone: BTreeSet<usize> =
                stored.chain(of_pages.filter(|word| *word >= from / WORD)).collect();
            for word in gone {
                let kept = from.saturating_sub(word * WORD).min(WORD);
                let mask = (0xffu16 << kept) as u8;
                self.instruction(event, Kind::Store(Write { word, bytes: [0; WORD], mask }));
            }
            let call = self.own_calls;
            self.own_calls -= 1;
            // A line of which something stays is not settled by that.
            let from = from.next_multiple_of(4096).min(end);
            self.step(event, Did::SyncBegins(call, from, end));
            self.step(event, Did::SyncEnds(call));
        }
        self.resize(event, file, size);
    }

    fn output(&mut self, event: &Event, bytes: &[u8]) {
        self.threads.insert(event.thread);
        self.begun.extend_from_slice(bytes);
        let Some(end) = self.begun.iter().rposition(|byte| *byte == b'\n') else { return };
        let whole: Vec<u8> = self.begun.drain(..=end).collect();
        let text = String::from_utf8_lossy(&whole);
        let lines: Vec<String> = text
            .lines()
            .filter(|line| self.acknowledge.is_none_or(|regex| regex.is_match(line)))
            .map(str::to_owned)
            .collect();
        if lines.is_empty() {
            return;
        }
        self.program.batches += usize::from(lines.len() > 1);
        let number = self.program.acknowledged.len();
        self.program.acknowledged.push(Acknowledged { lines, thread: event.thread });
        self.step(event, Did::Acknowledged(number));
    }

    fn end(self) {
        let Self { program, words, threads, .. } = self;
        program.words = words.into_iter().collect();
        program.initial = program.words.iter().map(|word| program.initial_of(*word)).collect();
        program.threads = threads.len();
    }
}

#[cfg(test)]
mod tests {
    use ringfence_trace::events::Ended;
    use ringfence_trace::recording::{About, Writer};

    use super::*;

    fn read(actions: Vec<Action>) -> Program {
        let folder = tempfile::tempdir().unwrap();
        let trace = folder.path().join("trace");
        let mut writer = Writer::create(&trace, About::default()).unwrap();
        let (path, medium) = ("/f".to_owned(), None);
        writer.file(TracedFile { id: 0, path, size: 8192, medium }).unwrap();
        writer.image(0, 4096, &[7; 4096]).unwrap();
        for (number, action) in actions.into_iter().enumerate() {
            let sequence = number as u64 + 1;
            writer.push(&Event { sequence, thread: 0, site: 0, callers: 0, action }).unwrap();
        }
        writer.finish(Ended::Exited(0)).unwrap();
        Program::of(&Reader::open(&trace).unwrap(), None).unwrap()
    }

    fn at(offset: u64) -> Place {
        Place { file: 0, offset }
    }

    #[test]
    fn stores_are_parts_of_words_up_to_the_end_of_the_file() {
        let program = read(vec![
            Action::Store { at: at(6), bytes: vec![1, 2, 3, 4] },
            Action::Store { at: at(8190), bytes: vec![5; 4] },
        ]);
        assert_eq!(program.words, [0, 1, 1023]);
        assert_eq!(program.initial, [0, 0, 0x0707_0707_0707_0707]);
        let masks: Vec<u8> =
            program.instructions().filter_map(Kind::write).map(|write| write.mask).collect();
        assert_eq!(masks, [0b1100_0000, 0b0000_0011, 0b1100_0000]);
    }

    #[test]
    fn what_is_cut_off_is_zero_if_the_file_grows_again() {
        let program = read(vec![
            Action::Truncate { file: 0, size: 4096 },
            Action::Write { at: at(4096), bytes: vec![9] },
        ]);
        let mut image = crate::Image::initial(&program);
        program.steps.iter().for_each(|step| image.step(&program, step.did));
        assert_eq!(image.sizes, [4097]);
        assert_eq!(image.words[0], 9);
        assert!(image.words[1..].iter().all(|word| *word == 0));
    }

    #[test]
    fn a_call_that_prints_several_lines_acknowledges_once() {
        let bytes = |text: &str| Action::Output { bytes: text.as_bytes().to_vec() };
        let program = read(vec![bytes("one"), bytes(" and\ntwo\nthr"), bytes("ee\n")]);
        let lines: Vec<Vec<String>> =
            program.acknowledged.iter().map(|one| one.lines.clone()).collect();
        assert_eq!(lines, [vec!["one and".to_owned(), "two".into()], vec!["three".into()]]);
        assert_eq!(program.batches, 1);
    }

    #[test]
    fn a_sync_begins_before_what_is_stored_while_it_runs() {
        let store = |offset| Action::Store { at: at(offset), bytes: vec![1; 8] };
        let sync = Action::Msync { at: at(0), size: 10, began: Some(1) };
        let program = read(vec![store(0), store(8), sync]);
        let order: Vec<&str> = program
            .steps
            .iter()
            .map(|step| match step.did {
                Did::Instruction(_) => "store",
                Did::SyncBegins(0, 0, 4096) => "begins",
                Did::SyncEnds(0) => "ends",
                _ => "other",
            })
            .collect();
        assert_eq!(order, ["store", "begins", "store", "ends"]);
    }
}
