//! A counterexample as text that a person can follow.

mod line;

use std::fmt;
use std::ops::Range;

use crate::event::{At, Event, Kind, Source, WORD, Write};
use crate::fate::Fate;
use crate::fix::{InVain, Op};
use crate::names::Names;
use crate::past::{Ended, Read, What};
use line::{Field, Line, abridged, alike, counted, place, value};

/// What was done, run by run, and what of it had reached memory when the machine stopped.
#[derive(Debug)]
pub struct Story {
    runs: Vec<Ended>,
    // Of the stores of all runs, in order, up to the last crash of the machine.
    fates: Vec<Fate>,
    last: Vec<Event>,
    reads: Vec<Read>,
    // Reads between the first and the last of these that are not kept.
    unread: usize,
    names: Names,
    // Additions that were tried, and of which none fixes it; `None` if not all could be.
    in_vain: Option<InVain>,
    // Of runs on the same memory that did not do the same: whose, what both did, and then each.
    two: Option<(&'static str, [Reading; 3])>,
}

/// What a run read and did, and how it ended, if it did.
#[derive(Debug)]
pub(crate) struct Reading {
    pub events: Vec<Event>,
    pub reads: Vec<Read>,
    pub end: Option<String>,
}

/// Lines of a run that are told before the first store that is not in memory.
const BEFORE: usize = 4;
/// Reads of the last run that are kept: so many first ones and last ones.
const READS: usize = 1000;
/// Width of the column with what was done, at most; with what became of a store and the place in
/// the source that makes 100.
const WHAT: usize = 53;

impl Story {
    pub(crate) fn new(
        runs: &[Ended],
        fates: Vec<Fate>,
        last: Vec<Event>,
        mut reads: Vec<Read>,
        names: Names,
    ) -> Self {
        // A recovery that goes round in circles reads millions of words.
        let unread = reads.len().saturating_sub(2 * READS);
        if unread > 0 {
            reads.drain(READS..READS + unread);
        }
        Self { runs: runs.to_vec(), fates, last, reads, unread, names, in_vain: None, two: None }
    }

    /// The last run was done twice, and was not the same.
    pub(crate) fn of_two(self, whose: &'static str, readings: [Reading; 3]) -> Self {
        Self { two: Some((whose, readings)), ..self }
    }

    /// So many flushes and fences were tried at one place each, all that could be, and none fixes
    /// it.
    pub(crate) fn tried_in_vain(&mut self, what: InVain) {
        self.in_vain = Some(what);
    }

    /// How many crashes it takes.
    pub fn crashes(&self) -> usize {
        self.runs.len()
    }

    /// The stores of all runs that crashed, word by word, and what became of each, in order.
    pub fn fates(&self) -> impl Iterator<Item = (&Event, Fate)> {
        let stores = self
            .runs
            .iter()
            .flat_map(|run| run.events().iter().filter(|event| event.kind.write().is_some()));
        stores.zip(self.fates.iter().copied())
    }

    /// Whether a crash took something that the program had acknowledged.
    pub(crate) fn lost_what_was_acknowledged(&self) -> bool {
        let mut fates = self.fates.iter();
        self.runs.iter().any(|run| {
            let told = |event: &Event| matches!(event.kind, Kind::Acknowledge(_));
            let last = run.events().iter().rposition(told).unwrap_or(0);
            let stores =
                run.events().iter().enumerate().filter(|(_, event)| event.kind.write().is_some());
            // To the end, so that the next run's fates come next.
            stores.fold(false, |lost, (number, _)| {
                let fate = fates.next().copied();
                lost || (fate == Some(Fate::Lost) && number < last)
            })
        })
    }

    /// Where the last run first read bytes of a store that was lost.
    pub(crate) fn read_of_lost(&self) -> Option<Source> {
        let lost: Vec<usize> = self
            .fates()
            .filter(|(_, fate)| *fate == Fate::Lost)
            .filter_map(|(event, _)| event.kind.write().map(|write| write.start()))
            .collect();
        let read = self.reads.iter().find(|read| match &read.what {
            What::Load(at, bytes) => lost.iter().any(|lost| (*at..at + bytes.len()).contains(lost)),
            What::Loads(..) => false,
            What::Verify(_, pieces, _) => {
                pieces.iter().any(|piece| lost.iter().any(|lost| piece.contains(lost)))
            }
        })?;
        Some(read.at)
    }

    /// The lines of which stores were lost, and those next to them, where what belongs to these may
    /// lie.
    pub(crate) fn is_near_lost(&self, bytes: &Range<usize>) -> bool {
        let lines = (bytes.start / 64).saturating_sub(1)..=bytes.end.div_ceil(64);
        self.fates()
            .filter(|(_, fate)| *fate == Fate::Lost)
            .filter_map(|(event, _)| event.kind.write())
            .any(|write| lines.contains(&(write.start() / 64)))
    }

    /// The places at which something was done that could be missing a flush or a fence behind it;
    /// those of stores that were lost first.
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
        self.runs
            .iter()
            .any(|run| run.events().iter().any(|event| matches!(event.kind, Kind::Flush(_))))
    }

    fn lines(
        &self,
        run: &[Event],
        fates: &mut std::slice::Iter<'_, Fate>,
        reads: &[Read],
    ) -> Vec<Line> {
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
                        // One operation's lines are told as one.
                        let mut last = line;
                        while let Some((_, next)) = run.next_if(|(_, next)| {
                            next.at == event.at && line_after(event.kind, last) == Some(next.kind)
                        }) {
                            last = flushed(next.kind).unwrap_or(last);
                        }
                        let verb =
                            if matches!(event.kind, Kind::Flush(_)) { "clflush" } else { "clwb" };
                        format!("{verb:<8} {}", self.name_of_lines(line, last))
                    }
                    Kind::Mark(mark) => format!("{:<8} {mark}", "mark"),
                    kind => kind.to_string(),
                };
                lines.push(Line::new(what, event.at));
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
                Kind::Store(_) => "store",
                Kind::Stream(_) => "nt store",
                Kind::Locked(_) => "cmpxchg",
                // They store nothing, and were told above.
                Kind::Flushopt(_) | Kind::Flush(_) | Kind::Sfence | Kind::Mfence => continue,
                Kind::LockedOnly | Kind::Mark(_) | Kind::Acknowledge(_) => continue,
            };
            let line = |field| Line {
                fate,
                field: Some(field),
                ..Line::new(format!("{verb:<8}"), event.at)
            };
            lines.extend(self.fields(start, &bytes).into_iter().map(line));
        }
        reads.for_each(|read| lines.extend(self.read(read)));
        lines
    }

    fn read(&self, read: &Read) -> Vec<Line> {
        match &read.what {
            What::Load(at, bytes) => {
                let line = |field| Line {
                    field: Some(field),
                    ..Line::new("finds   ".into(), At::Source(read.at))
                };
                self.fields(*at, bytes).into_iter().map(line).collect()
            }
            What::Loads(verb, range) => {
                let what = match range.len() {
                    0 => format!("{verb:<8} bytes from {} on", self.name_at(range.start)),
                    _ => format!("{verb:<8} {}", self.range(range)),
                };
                vec![Line::new(what, At::Source(read.at))]
            }
            What::Verify(name, pieces, fits) => {
                let ranges: Vec<String> = pieces
                    .iter()
                    .filter(|piece| !piece.is_empty())
                    .map(|piece| self.range(piece))
                    .collect();
                let verdict = if *fits { "fits" } else { "does not fit" };
                let of = name.as_ref().map(|name| format!("{name} of ")).unwrap_or_default();
                vec![Line::new(
                    format!("verify   {of}{}: {verdict}", ranges.join(" and ")),
                    At::Source(read.at),
                )]
            }
        }
    }

    fn range(&self, range: &Range<usize>) -> String {
        let named = self.names.of(range.start).map(|name| format!(" ({name})")).unwrap_or_default();
        format!("{} bytes at {}{named}", range.len(), range.start)
    }

    fn name_at(&self, at: usize) -> String {
        self.names.of(at).unwrap_or_else(|| at.to_string())
    }

    fn name_of_lines(&self, first: usize, last: usize) -> String {
        let (from, end) = (first * 64, last * 64 + 64);
        let mut names: Vec<String> = Vec::new();
        let mut at = from;
        while at < end {
            names.extend(self.names.of(at).filter(|name| !name.contains('+') || names.is_empty()));
            at = self.names.next_edge(at, end);
        }
        let lines = match last - first {
            0 => format!("line {from}"),
            more => format!("{} lines from {from} on", more + 1),
        };
        match &names[..] {
            [] => lines,
            [one] => format!("{lines} ({one})"),
            [one, other] => format!("{lines} ({one}, {other})"),
            [one, .., other] => format!("{lines} ({one} ... {other})"),
        }
    }

    // Bytes, field by field where fields have names.
    fn fields(&self, start: usize, bytes: &[u8]) -> Vec<Field> {
        let end = start + bytes.len();
        let mut fields = Vec::new();
        let mut at = start;
        while at < end {
            let next = self.names.next_edge(at, end);
            let value = value(&bytes[at - start..next - start]);
            let name = self.names.of(at).unwrap_or_else(|| range_text(at, next));
            fields.push(Field { name, value, last: None });
            at = next;
        }
        fields
    }

    // What is told of each run: a heading, or a line of it.
    fn told(&self) -> Vec<Result<Line, String>> {
        let mut told = Vec::new();
        let mut fates = self.fates.iter();
        let mut cached = false;
        for (number, run) in self.runs.iter().enumerate() {
            told.push(Err(if number == 0 {
                "The program:"
            } else {
                "Recovery, and what follows it:"
            }
            .into()));
            let mut lines = alike(self.lines(run.events(), &mut fates, &[]));
            let open =
                lines.iter().position(|line| matches!(line.fate, Some(Fate::Lost | Fate::Either)));
            let from = open.unwrap_or(lines.len()).saturating_sub(BEFORE);
            if from > 0 {
                let lines = counted(from, "line");
                told.push(Err(format!("{:13}... {lines}, of which every store is in memory", "")));
            }
            abridged(lines.split_off(from), 0, &mut told);
            let end = match (run.killed, cached) {
                (true, _) => "the process is killed: what it stored is still there, in caches",
                (false, true) => "the machine crashes, and with it what was in caches alone",
                (false, false) => "the machine crashes",
            };
            cached |= run.killed;
            told.push(Err(format!("  ---------- {end} ----------")));
        }
        if let Some((whose, [both, first, second])) = &self.two {
            let mut run = |heading: &str, Reading { events, reads, end }: &Reading| {
                told.push(Err(format!("{whose}, {heading}:")));
                abridged(alike(self.lines(events, &mut [].iter(), reads)), 0, &mut told);
                told.extend(end.iter().map(|end| Err(format!("{:13}{end}", ""))));
            };
            if !both.events.is_empty() || !both.reads.is_empty() {
                run("both times", both);
            }
            run("the first time it went on", first);
            run("the second time", second);
            return told;
        }
        let whose =
            if self.runs.is_empty() { "The program:" } else { "Recovery, and what follows it:" };
        told.push(Err(whose.into()));
        abridged(alike(self.lines(&self.last, &mut fates, &self.reads)), self.unread, &mut told);
        told
    }

    // The first operation of which one word had reached memory, and another had not.
    fn torn(&self) -> Option<At> {
        let stores: Vec<(&Event, Fate)> = self.fates().collect();
        let torn = stores.windows(2).find(|pair| {
            let [(one, one_fate), (other, other_fate)] = [pair[0], pair[1]];
            let words = [one, other].map(|event| event.kind.write().map_or(0, |write| write.word));
            let fates = [one_fate, other_fate];
            one.at == other.at
                && words[0] + 1 == words[1]
                && fates.contains(&Fate::Lost)
                && fates.contains(&Fate::Reached)
        })?;
        Some(torn[0].0.at)
    }

    /// Why no flush or fence at one place fixes it, as far as that shows; empty if one may.
    pub(crate) fn beyond_repair(&self) -> String {
        let Some(in_vain) = self.in_vain else { return String::new() };
        let killed = self.runs.iter().any(|run| run.killed);
        let why = if let Some(at) = self.torn() {
            format!(
                "The store at {at} is torn: aligned 8 bytes reach memory at once, and never more."
            )
        } else if !self.fates.contains(&Fate::Lost) {
            "No store was lost: stopping there is enough. Look at the order of the stores, and at \
             what \
             recovery takes for granted."
                .into()
        } else if killed {
            "A process was killed, and what came after it accepted what was only in caches: let \
             recovery \
             flush what it read, and fence, before anything relies on it."
                .into()
        } else {
            "Look at what was LOST above, at the order of the stores, and at what recovery takes \
             for granted."
                .into()
        };
        match in_vain {
            InVain::AtOnce => format!(
                "\nNo single flush or fence closes it, nor one of each behind everything that is \
                 stored: that was \
                 tried. {why}\n"
            ),
            InVain::Each(0) => format!("\n{why}\n"),
            InVain::Each(1) => {
                format!("\nNo single flush or fence closes it, one was tried. {why}\n")
            }
            InVain::Each(number) => {
                format!("\nNo single flush or fence closes it, {number} were tried. {why}\n")
            }
        }
    }
}

fn flushed(kind: Kind) -> Option<usize> {
    match kind {
        Kind::Flushopt(line) | Kind::Flush(line) => Some(line),
        _ => None,
    }
}

// The flush of the same kind that goes on behind a line.
fn line_after(kind: Kind, line: usize) -> Option<Kind> {
    match kind {
        Kind::Flushopt(_) => Some(Kind::Flushopt(line + 1)),
        Kind::Flush(_) => Some(Kind::Flush(line + 1)),
        _ => None,
    }
}

fn range_text(at: usize, end: usize) -> String {
    if end - at == 1 { format!("[{at}]") } else { format!("[{at}..{end}]") }
}

fn bytes(write: &Write) -> Vec<u8> {
    (0..WORD).filter(|byte| write.mask >> byte & 1 == 1).map(|byte| write.bytes[byte]).collect()
}

impl fmt::Display for Story {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let told = self.told();
        let wide = told
            .iter()
            .flatten()
            .map(|line| line.text().chars().count())
            .filter(|wide| *wide <= WHAT);
        let wide = wide.max().unwrap_or(0);
        for line in &told {
            match line {
                Err(heading) => writeln!(f, "{heading}")?,
                Ok(line) => {
                    let fate = match line.fate {
                        Some(Fate::Reached) => "in memory",
                        Some(Fate::Lost) => "LOST",
                        Some(Fate::Either) => "either way",
                        None => "",
                    };
                    writeln!(f, "  {fate:<10} {:<wide$}  {}", line.text(), place(line.at))?;
                }
            }
        }
        Ok(())
    }
}
