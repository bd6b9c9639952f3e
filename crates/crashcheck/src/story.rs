//! A counterexample, told so that a person can follow it.

use std::fmt;
use std::ops::Range;

use crate::event::{At, Event, Kind, WORD, Write};
use crate::fix::Op;
use crate::names::Names;
use crate::run::{Ended, Read, What};

/// What was done, run by run, and what of it had reached memory when the machine stopped.
#[derive(Debug)]
pub struct Story {
    runs: Vec<Ended>,
    // Of the stores of all runs, in order, up to the last crash of the machine.
    fates: Vec<Fate>,
    last: Vec<Event>,
    reads: Vec<Read>,
    names: Names,
}

/// What became of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It had reached memory.
    Reached,
    /// It had not.
    Lost,
    /// Either, it makes no difference here.
    Either,
}

/// Lines of a run that are told before the first store that is not in memory.
const BEFORE: usize = 4;

impl Story {
    pub(crate) fn new(
        runs: &[Ended],
        fates: Vec<Fate>,
        last: Vec<Event>,
        reads: Vec<Read>,
        names: Names,
    ) -> Self {
        Self { runs: runs.to_vec(), fates, last, reads, names }
    }

    /// How many crashes it takes.
    pub fn crashes(&self) -> usize {
        self.runs.len()
    }

    /// The stores of all runs that crashed, word by word, and what became of each, in order.
    pub fn fates(&self) -> impl Iterator<Item = (&Event, Fate)> {
        let stores =
            self.runs.iter().flat_map(|run| run.events().iter().filter(|event| event.kind.write().is_some()));
        stores.zip(self.fates.iter().copied())
    }

    /// The places at which something was done that could be missing a flush or a fence behind it; those of
    /// stores that were lost first.
    pub(crate) fn operations(&self) -> Vec<(Op, At)> {
        let lost = self.fates().filter(|(_, fate)| *fate == Fate::Lost).map(|(event, _)| event);
        let mut all: Vec<(Op, At)> = Vec::new();
        for event in lost.chain(self.runs.iter().flat_map(|run| run.events().iter())) {
            if let Some(op) = Op::of(event.kind)
                && !all.contains(&(op, event.at))
            {
                all.push((op, event.at));
            }
        }
        all
    }

    /// Whether anything was flushed by `clflush`.
    pub(crate) fn flushes_strongly(&self) -> bool {
        self.runs.iter().any(|run| run.events().iter().any(|event| matches!(event.kind, Kind::Flush(_))))
    }

    fn lines(&self, run: &[Event], fates: &mut std::slice::Iter<'_, Fate>, reads: &[Read]) -> Vec<Line> {
        let mut lines: Vec<Line> = Vec::new();
        let mut reads = reads.iter().peekable();
        let mut run = run.iter().enumerate().peekable();
        while let Some((number, event)) = run.next() {
            while let Some(read) = reads.next_if(|read| read.events <= number) {
                lines.extend(self.read(read));
            }
            let Some(first) = event.kind.write() else {
                let what = match event.kind {
                    Kind::Flushopt(line) | Kind::Flush(line) => {
                        let verb = if matches!(event.kind, Kind::Flush(_)) { "clflush" } else { "clwb" };
                        format!("{verb}    line {}{}", line * 64, self.name_of_line(line))
                    }
                    kind => kind.to_string(),
                };
                lines.push(Line { fate: None, what, at: event.at });
                continue;
            };
            let fate = fates.next().copied();
            // One operation's words are told as one, as far as one thing became of them.
            let start = first.start();
            let mut bytes = bytes(&first);
            while let Some((_, next)) = run.peek() {
                let Some(write) = next.kind.write() else { break };
                let same = next.at == event.at
                    && std::mem::discriminant(&next.kind) == std::mem::discriminant(&event.kind);
                let follows = write.start() == start + bytes.len();
                if !same || !follows || fates.as_slice().first().copied() != fate {
                    break;
                }
                bytes.extend(self::bytes(&write));
                fates.next();
                run.next();
            }
            let verb = match event.kind {
                Kind::Store(_) => "store  ",
                Kind::Stream(_) => "nt store",
                _ => "locked store",
            };
            lines.extend(self.fields(start, &bytes).map(|text| Line {
                fate,
                what: format!("{verb} {text}"),
                at: event.at,
            }));
        }
        reads.for_each(|read| lines.extend(self.read(read)));
        lines
    }

    fn read(&self, read: &Read) -> Vec<Line> {
        let line = |what| Line { fate: None, what, at: read.at };
        match &read.what {
            What::Load(at, bytes) => {
                self.fields(*at, bytes).map(|text| line(format!("finds    {text}"))).collect()
            }
            What::Verify(pieces, fits) => {
                let ranges: Vec<String> =
                    pieces.iter().filter(|piece| !piece.is_empty()).map(|piece| self.range(piece)).collect();
                let verdict = if *fits { "fits" } else { "does not fit" };
                vec![line(format!("verify   {}: the checksum {verdict}", ranges.join(" and ")))]
            }
        }
    }

    fn range(&self, range: &Range<usize>) -> String {
        let named = self.names.of(range.start).map(|name| format!(" ({name})")).unwrap_or_default();
        format!("{} bytes at {}{named}", range.len(), range.start)
    }

    fn name_of_line(&self, line: usize) -> String {
        let mut names: Vec<String> = Vec::new();
        let mut at = line * 64;
        while at < line * 64 + 64 {
            names.extend(self.names.of(at).filter(|name| !name.contains('+') || names.is_empty()));
            at = self.names.next_edge(at, line * 64 + 64);
        }
        names.truncate(3);
        if names.is_empty() { String::new() } else { format!(" ({})", names.join(", ")) }
    }

    // Bytes, field by field where fields have names.
    fn fields(&self, start: usize, bytes: &[u8]) -> impl Iterator<Item = String> {
        let end = start + bytes.len();
        let mut texts = Vec::new();
        let mut at = start;
        while at < end {
            let next = self.names.next_edge(at, end);
            let value = value(&bytes[at - start..next - start]);
            texts.push(match self.names.of(at) {
                Some(name) => format!("{name} = {value}"),
                None => format!("{} = {value}", range_text(at, next)),
            });
            at = next;
        }
        texts.into_iter()
    }

    // What is told of each run: a heading, or a line of it.
    fn told(&self) -> Vec<Result<Line, String>> {
        let mut told = Vec::new();
        let mut fates = self.fates.iter();
        for (number, run) in self.runs.iter().enumerate() {
            told.push(
                Err(if number == 0 { "The program:" } else { "Recovery, and what follows it:" }.into()),
            );
            let lines = self.lines(run.events(), &mut fates, &[]);
            let open = lines.iter().position(|line| matches!(line.fate, Some(Fate::Lost | Fate::Either)));
            let from = open.unwrap_or(lines.len()).saturating_sub(BEFORE);
            if from > 0 {
                told.push(Err(format!("             ... {from} lines, of which every store is in memory")));
            }
            told.extend(lines.into_iter().skip(from).map(Ok));
            let end = if run.killed { "the process is killed" } else { "the machine crashes" };
            told.push(Err(format!("  ---------- {end} ----------")));
        }
        told.push(Err("Recovery, and what follows it:".into()));
        told.extend(self.lines(&self.last, &mut fates, &self.reads).into_iter().map(Ok));
        told
    }
}

struct Line {
    fate: Option<Fate>,
    what: String,
    at: At,
}

fn range_text(at: usize, end: usize) -> String {
    if end - at == 1 { format!("[{at}]") } else { format!("[{at}..{end}]") }
}

// Up to a word as a number, else as bytes.
fn value(bytes: &[u8]) -> String {
    if bytes.len() <= WORD {
        let mut word = [0; WORD];
        word[..bytes.len()].copy_from_slice(bytes);
        let number = u64::from_le_bytes(word);
        return if number > 1 << 32 { format!("{number:#x}") } else { number.to_string() };
    }
    let mut text = String::new();
    for (number, chunk) in bytes.chunks(WORD).enumerate() {
        if number == 4 {
            text.push_str(" ...");
            break;
        }
        if number > 0 {
            text.push(' ');
        }
        chunk.iter().for_each(|byte| text.push_str(&format!("{byte:02x}")));
    }
    text
}

fn bytes(write: &Write) -> Vec<u8> {
    (0..WORD).filter(|byte| write.mask >> byte & 1 == 1).map(|byte| write.bytes[byte]).collect()
}

impl fmt::Display for Story {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let told = self.told();
        let wide = told.iter().flatten().map(|line| line.what.chars().count()).max().unwrap_or(0).min(60);
        for line in &told {
            match line {
                Err(heading) => writeln!(f, "{heading}")?,
                Ok(Line { fate, what, at }) => {
                    let fate = match fate {
                        Some(Fate::Reached) => "in memory",
                        Some(Fate::Lost) => "LOST",
                        Some(Fate::Either) => "either way",
                        None => "",
                    };
                    writeln!(f, "  {fate:<10} {what:<wide$}  {}:{}", at.file(), at.line())?;
                }
            }
        }
        Ok(())
    }
}
