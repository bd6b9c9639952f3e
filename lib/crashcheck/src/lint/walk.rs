//! The run as it goes by: of each line what is stored, on its way, and durable.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::Range;

use super::finding::{BLOCK, Lint, Rule, Why};
use crate::event::{At, Event, Kind, WORD, Write};
use crate::profile::Profile;

const LINE: usize = 64;

// How far a store has come on its way to memory.
#[derive(Debug, Clone, Copy)]
enum State {
    Stored,
    Streamed,
    // By `clwb` or `clflushopt`: any fence completes it.
    Weak(Flush),
    // By `clflush`; fences since were none to complete it.
    Strong(Flush),
}

#[derive(Debug, Clone, Copy)]
struct Flush {
    at: At,
    op: usize,
    // So many fences came before.
    fences: usize,
}

// A store of which some byte is not durable, and not stored over either.
#[derive(Debug)]
struct Stored {
    word: usize,
    live: u8,
    at: At,
    op: usize,
    // The caller's number of the store.
    number: u64,
    state: State,
    told: Option<Rule>,
}

// A flush that no fence has completed yet.
#[derive(Debug, Clone, Copy)]
struct Pending {
    at: At,
    strong: bool,
    // So many fences came before. Those that came after are none that complete it.
    fences: usize,
}

#[derive(Debug, Default)]
struct Line {
    stored: Vec<Stored>,
    // Ordinary stores since the last flush.
    dirty: bool,
    // The last store to it was a non-temporal one.
    streamed: bool,
    pending: Option<Pending>,
}

#[derive(Debug)]
pub(super) struct Walk<'v> {
    profile: Profile,
    volatile: &'v [Range<usize>],
    lines: BTreeMap<usize, Line>,
    // Those in which any fence changes something, and those in which only one does that completes
    // `clflush`.
    open: BTreeSet<usize>,
    strong: BTreeSet<usize>,
    // Those in which something changed since the last acknowledgement.
    changed: BTreeSet<usize>,
    // Number of the operation that the last event belongs to.
    op: usize,
    pub(super) number: u64,
    last: Option<Event>,
    last_fence: Option<At>,
    fences: usize,
    // Flushed or streamed since the last fence.
    busy: bool,
    // First byte, end and place of what was stored since the last fence.
    extents: Vec<(usize, usize, At)>,
    lints: BTreeMap<(Rule, At), (usize, Lint)>,
    counted: HashSet<(Rule, usize)>,
}

impl<'v> Walk<'v> {
    pub(super) fn new(profile: Profile, volatile: &'v [Range<usize>]) -> Self {
        Self {
            profile,
            volatile,
            lines: BTreeMap::new(),
            open: BTreeSet::new(),
            strong: BTreeSet::new(),
            changed: BTreeSet::new(),
            op: 0,
            number: 0,
            last: None,
            last_fence: None,
            fences: 0,
            busy: false,
            extents: Vec::new(),
            lints: BTreeMap::new(),
            counted: HashSet::new(),
        }
    }

    pub(super) fn finish(mut self) -> Vec<Lint> {
        self.tell(None);
        self.blocks();
        self.lints.into_values().map(|(_, lint)| lint).collect()
    }

    pub(super) fn step(&mut self, event: &Event) {
        if !self.last.is_some_and(|last| continues(&last, event)) {
            self.op += 1;
        }
        self.last = Some(*event);
        match event.kind {
            Kind::Store(write) => self.store(write, event.at, State::Stored),
            Kind::Stream(write) => self.store(write, event.at, State::Streamed),
            Kind::Flushopt(line) => self.flush(line, event.at, false),
            Kind::Flush(line) => self.flush(line, event.at, true),
            Kind::Sfence | Kind::Mfence | Kind::LockedOnly => self.fence(event.kind, event.at),
            Kind::Locked(write) => {
                self.fence(event.kind, event.at);
                self.store(write, event.at, State::Stored);
                if self.profile == Profile::Eadr {
                    // Not in the store buffer any more.
                    self.settle(write.word * WORD / LINE);
                }
            }
            Kind::Mark(_) => {}
            Kind::Acknowledge(_) => self.tell(Some(event.at)),
        }
    }

    fn store(&mut self, write: Write, at: At, state: State) {
        let number = write.word * WORD / LINE;
        self.changed.insert(number);
        let line = self.lines.entry(number).or_default();
        for stored in line.stored.iter_mut().filter(|stored| stored.word == write.word) {
            stored.live &= !write.mask;
        }
        line.stored.retain(|stored| stored.live != 0);
        let bytes = bytes_of(write.word, write.mask);
        // A flush of it has something to do all the same.
        let kept = !self.volatile.iter().any(|range| range.contains(&bytes.start));
        if kept {
            line.stored.push(Stored {
                word: write.word,
                live: write.mask,
                at,
                op: self.op,
                number: self.number,
                state,
                told: None,
            });
        }
        line.streamed = matches!(state, State::Streamed);
        line.dirty |= !line.streamed;
        self.busy |= line.streamed;
        if line.streamed || self.profile == Profile::Eadr {
            self.open.insert(number);
        }
        if !kept {
            return;
        }
        match self.extents.last_mut() {
            Some((_, end, place)) if *end == bytes.start && *place == at => *end = bytes.end,
            _ => self.extents.push((bytes.start, bytes.end, at)),
        }
    }

    fn settle(&mut self, number: usize) {
        if let Some(line) = self.lines.get_mut(&number) {
            line.stored.retain(|stored| !matches!(stored.state, State::Stored));
        }
    }

    // All of the lines that these bytes touch are as they were at first, but for what was stored
    // behind a number.
    pub(super) fn settle_all(&mut self, bytes: Range<usize>, until: Option<u64>) {
        let lines = bytes.start / LINE..bytes.end.div_ceil(LINE);
        if lines.is_empty() {
            return;
        }
        // Whole pages are written: no fence completes these any more.
        let pieces = std::mem::take(&mut self.extents).into_iter().flat_map(|(start, end, at)| {
            [(start, end.min(bytes.start), at), (start.max(bytes.end), end, at)]
        });
        self.extents = pieces.filter(|(start, end, _)| start < end).collect();
        let numbers: Vec<usize> = self.lines.range(lines).map(|(number, _)| *number).collect();
        for number in numbers {
            if let (Some(until), Some(line)) = (until, self.lines.get_mut(&number)) {
                line.stored.retain(|stored| stored.number > until);
                if !line.stored.is_empty() {
                    line.dirty &=
                        line.stored.iter().any(|stored| matches!(stored.state, State::Stored));
                    continue;
                }
            }
            self.lines.remove(&number);
            self.open.remove(&number);
            self.strong.remove(&number);
            self.changed.remove(&number);
        }
    }

    fn flush(&mut self, number: usize, at: At, strong: bool) {
        let bytes = number * LINE..(number + 1) * LINE;
        if self.profile == Profile::Eadr {
            return self.add(Rule::FlushUnderEadr, at, None, bytes, None, Why::Plain);
        }
        self.busy = true;
        self.changed.insert(number);
        let fences = self.fences;
        let fenced = |before: Pending| fences > before.fences;
        let line = self.lines.entry(number).or_default();
        let finding = match (line.dirty, line.pending) {
            (true, None) => None,
            (true, Some(before)) => {
                (!fenced(before)).then_some((Rule::FlushedTwice, Some(before.at), Why::Plain))
            }
            (false, Some(before)) => {
                // The other instruction is waited for by other fences, or ordered otherwise.
                let adds = match self.profile {
                    Profile::IntelAdr => strong && !before.strong,
                    Profile::Amd | Profile::OldAmd => !strong && before.strong,
                    // Left above.
                    Profile::Eadr => false,
                };
                let useless = !adds && !fenced(before);
                useless.then_some((Rule::RedundantFlush, Some(before.at), Why::Plain))
            }
            (false, None) => Some((
                Rule::CleanFlush,
                None,
                if line.streamed { Why::Streamed } else { Why::Plain },
            )),
        };
        let this = Flush { at, op: self.op, fences };
        for stored in &mut line.stored {
            match (stored.state, strong) {
                (State::Stored, true) => stored.state = State::Strong(this),
                (State::Stored | State::Strong(_), false) => stored.state = State::Weak(this),
                (State::Strong(_), true) | (State::Streamed | State::Weak(_), _) => {}
            }
        }
        // A flush of a clean line is complete before it begins.
        if line.dirty || line.pending.is_some_and(|pending| pending.strong) {
            line.pending = Some(Pending { at, strong, fences });
            if strong {
                self.strong.insert(number);
            } else {
                self.strong.remove(&number);
                self.open.insert(number);
            }
        }
        line.dirty = false;
        if let Some((rule, other, why)) = finding {
            self.add(rule, at, None, bytes, other, why);
        }
    }

    fn fence(&mut self, kind: Kind, at: At) {
        self.blocks();
        // As the explorer has it: see `crash_image`.
        let completes_strong = match self.profile {
            Profile::IntelAdr => true,
            Profile::Amd => matches!(kind, Kind::Sfence | Kind::Mfence),
            Profile::OldAmd => kind == Kind::Mfence,
            Profile::Eadr => false,
        };
        let eadr = self.profile == Profile::Eadr;
        let mut late = false;
        let mut waited_for = std::mem::take(&mut self.open);
        if completes_strong {
            waited_for.append(&mut self.strong);
        }
        for number in waited_for {
            let line = self.lines.get_mut(&number).expect("open lines are known");
            line.stored.retain(|stored| match stored.state {
                State::Stored => !eadr,
                State::Streamed | State::Weak(_) => false,
                State::Strong(_) => !completes_strong,
            });
            line.pending = line.pending.filter(|pending| pending.strong && !completes_strong);
            late |= line.pending.is_none();
            // As one that nothing was stored to. What was streamed is remembered, for what is said
            // of its flush.
            if line.stored.is_empty() && !line.dirty && line.pending.is_none() && !line.streamed {
                self.lines.remove(&number);
                self.changed.remove(&number);
            }
        }
        self.fences += 1;
        let idle = !std::mem::take(&mut self.busy) && !late;
        if idle && kind == Kind::Sfence && !eadr {
            let before = self.last_fence;
            self.add(Rule::RedundantFence, at, None, 0..0, before, Why::Plain);
        }
        self.last_fence = Some(at);
    }

    // At an acknowledgement, or at the end.
    fn tell(&mut self, acknowledged: Option<At>) {
        let eadr = self.profile == Profile::Eadr;
        let sfence_would_do = self.profile == Profile::Amd;
        let mut found = Vec::new();
        // What did not change since the last acknowledgement was told there; at the end other rules
        // hold.
        let changed = std::mem::take(&mut self.changed);
        let (fences, last_fence) = (self.fences, self.last_fence);
        let mut look = |stored: &mut Stored| {
            let (rule, at, op, why) = match stored.state {
                State::Stored if eadr && acknowledged.is_none() => return,
                State::Stored if eadr => (Rule::MissingFence, stored.at, stored.op, Why::Buffered),
                State::Stored if acknowledged.is_none() => {
                    (Rule::NeverDurable, stored.at, stored.op, Why::Plain)
                }
                State::Stored => (Rule::AcknowledgedTooEarly, stored.at, stored.op, Why::Plain),
                State::Streamed => (Rule::MissingFence, stored.at, stored.op, Why::Streamed),
                State::Weak(flush) => (Rule::MissingFence, flush.at, flush.op, Why::Plain),
                State::Strong(flush) => {
                    let wrong = last_fence.filter(|_| fences > flush.fences);
                    let why = wrong
                        .map_or(Why::Plain, |fence| Why::WrongFence { fence, sfence_would_do });
                    (Rule::MissingFence, flush.at, flush.op, why)
                }
            };
            if stored.told != Some(rule) {
                stored.told = Some(rule);
                found.push((rule, at, op, bytes_of(stored.word, stored.live), why));
            }
        };
        if acknowledged.is_some() {
            for number in changed {
                let line = self.lines.get_mut(&number).expect("changed lines are known");
                line.stored.iter_mut().for_each(&mut look);
            }
        } else {
            self.lines.values_mut().flat_map(|line| &mut line.stored).for_each(look);
        }
        // In the order of the program, so that the first occurrence is the one that is shown.
        found.sort_by_key(|(_, _, op, bytes, _)| (*op, bytes.start));
        for (rule, at, op, bytes, why) in found {
            self.add(rule, at, Some(op), bytes, acknowledged, why);
        }
    }

    // What was stored since the last fence, in pieces as long as can be.
    fn blocks(&mut self) {
        let mut extents = std::mem::take(&mut self.extents);
        extents.sort_by_key(|(start, ..)| *start);
        let mut extents = extents.into_iter().peekable();
        while let Some((start, mut end, at)) = extents.next() {
            while let Some((_, other, _)) = extents.next_if(|(next, ..)| *next <= end) {
                end = end.max(other);
            }
            if end - start >= BLOCK && (start % BLOCK != 0 || end % BLOCK != 0) {
                self.add(Rule::PartialBlock, at, None, start..end, None, Why::Plain);
            }
        }
    }

    // Occurrences of one operation, if it is named, count as one.
    fn add(
        &mut self,
        rule: Rule,
        at: At,
        op: Option<usize>,
        bytes: Range<usize>,
        other: Option<At>,
        why: Why,
    ) {
        let again = op.is_some_and(|op| !self.counted.insert((rule, op)));
        match self.lints.entry((rule, at)) {
            Entry::Vacant(entry) => {
                let lint = Lint { rule, at, count: 1, bytes, other, ns: None, name: None, why };
                entry.insert((op.unwrap_or(0), lint));
            }
            Entry::Occupied(entry) => {
                let (first, lint) = entry.into_mut();
                if !again {
                    lint.count += 1;
                } else if op == Some(*first) {
                    lint.bytes = lint.bytes.start.min(bytes.start)..lint.bytes.end.max(bytes.end);
                }
            }
        }
    }
}

// Whether both events are pieces of one operation of the program: neighbours, asked for by the same
// line.
fn continues(one: &Event, other: &Event) -> bool {
    one.at == other.at
        && match (one.kind, other.kind) {
            (Kind::Store(one), Kind::Store(other)) | (Kind::Stream(one), Kind::Stream(other)) => {
                one.word + 1 == other.word
            }
            (Kind::Flushopt(one), Kind::Flushopt(other))
            | (Kind::Flush(one), Kind::Flush(other)) => one + 1 == other,
            _ => false,
        }
}

// From the first to the last byte that is written.
fn bytes_of(word: usize, mask: u8) -> Range<usize> {
    let start = word * WORD;
    start + mask.trailing_zeros() as usize..start + WORD - mask.leading_zeros() as usize
}
