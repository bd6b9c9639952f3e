//! The lints of the crash checker over a recording: its events as the checker's own.

use std::fmt;

use ringfence_crashcheck as checker;
use ringfence_crashcheck::{At, Drops, DurableBy, Kind, Lint, Lints, Profile, Rule, Scope, WORD, Write};
use ringfence_persist::Flush;
use rustc_hash::{FxHashMap, FxHashSet};
use serde::Serialize;

use super::key::Key;
use crate::events::{Action, Event, LINE, Location, Medium, Place};
use crate::recording::Reader;

// Files are one memory to the checker: each begins so far behind the one before.
const SPAN: u32 = 44;

// As many as addresses of a memory leave room for.
const MOST_FILES: usize = 1 << 19;

// What the kernel wrote: nobody is asked to flush it.
const KERNEL: At = At::Site(u32::MAX);

/// What the crash checker finds wrong or wasteful at one place, in the recorded run, by some
/// processors' rules ([`Run::rules`](super::Run::rules)). All threads are one to it: a fence of one counts for all.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    /// The rule, by its name in the crash checker.
    pub rule: String,
    /// The instruction; `None` where it is not known.
    pub location: Option<Location>,
    /// The innermost call from outside of the program or library that it is in, if there is one.
    pub caller: Option<Location>,
    /// How often.
    pub count: u64,
    /// The file of the first of it, by its number; `None` for a fence.
    pub file: Option<u32>,
    /// The first byte concerned in it.
    pub offset: u64,
    /// Bytes concerned.
    pub size: u64,
    /// A sentence: where, what is the matter, what to do.
    pub text: String,
}

/// The checker at work on a recording.
pub struct Findings<'r> {
    recording: &'r Reader,
    lints: Lints,
    files: Vec<u32>,
    // Where each is among them.
    file_numbers: FxHashMap<u32, usize>,
    // By site and callers, the number that the checker knows a place by.
    numbers: FxHashMap<Key, u32>,
    places: Vec<Named>,
    // The same of places, as several callers may have been called from one.
    known: FxHashMap<(u32, Option<Location>), u32>,
    threads: FxHashSet<u32>,
    dropping: Dropping,
}

// Flushes that may be meant to drop their lines from the caches.
#[derive(Default)]
struct Dropping {
    // Places of clflush and clflushopt; clwb is for writing back alone.
    places: FxHashSet<u32>,
    // The last of them of each line, if loads are recorded.
    last: FxHashMap<usize, u32>,
    // Those after which a load of the line followed.
    loaded: FxHashSet<u32>,
}

impl Dropping {
    fn of(&self, lint: &Lint, loads: bool) -> Drops {
        let of = |at| match at {
            At::Site(number) if self.loaded.contains(&number) => Drops::Loaded,
            At::Site(number) if !loads && self.places.contains(&number) => Drops::Perhaps,
            At::Site(_) | At::Source(_) => Drops::No,
        };
        // Of two flushes, it may be either.
        match (of(lint.at), lint.other.map(of)) {
            (Drops::No, other) => other.unwrap_or(Drops::No),
            (own, _) => own,
        }
    }
}

struct Named {
    site: Option<Location>,
    caller: Option<Location>,
}

impl<'r> Findings<'r> {
    pub fn new(recording: &'r Reader, rules: Profile) -> Self {
        Self {
            recording,
            lints: Lints::new(rules),
            files: Vec::new(),
            file_numbers: FxHashMap::default(),
            numbers: FxHashMap::default(),
            places: Vec::new(),
            known: FxHashMap::default(),
            threads: FxHashSet::default(),
            dropping: Dropping::default(),
        }
    }

    /// The next event.
    pub fn step(&mut self, event: &Event) {
        self.threads.insert(event.thread);
        let number = self.number(Key { site: event.site, callers: event.callers });
        let at = At::Site(number);
        match &event.action {
            Action::Store { at: place, bytes } => self.store(*place, bytes, at, Kind::Store),
            Action::NonTemporal { at: place, bytes } => self.store(*place, bytes, at, Kind::Stream),
            Action::Locked { stores: Some((place, bytes)) } => self.store(*place, bytes, at, Kind::Locked),
            Action::Locked { stores: None } => self.tell(Kind::LockedOnly, at),
            Action::Write { at: place, bytes } => self.store(*place, bytes, KERNEL, Kind::Store),
            Action::Flush { flush, at: place } => {
                let Some(start) = self.address(*place) else { return };
                let line = start / LINE as usize;
                if *flush != Flush::Clwb {
                    self.dropping.places.insert(number);
                    if self.recording.manifest().about.loads {
                        self.dropping.last.insert(line, number);
                    }
                }
                let kind = match flush {
                    Flush::Clflush => Kind::Flush(line),
                    Flush::Clflushopt | Flush::Clwb => Kind::Flushopt(line),
                };
                self.tell(kind, at);
            }
            Action::Sfence => self.tell(Kind::Sfence, at),
            Action::Mfence => self.tell(Kind::Mfence, at),
            Action::Load { at: place, size } => self.load(*place, u64::from(*size)),
            Action::Map { .. } | Action::Unmap { .. } => {}
            Action::Msync { .. } | Action::Truncate { .. } => {
                if let Some((file, bytes)) = event.action.settles()
                    && let Some(start) = self.address(Place { file, offset: 0 })
                {
                    let end = |offset: u64| start + offset.min((1 << SPAN) - 1) as usize;
                    self.lints.settle(end(bytes.start)..end(bytes.end));
                }
            }
        }
    }

    fn tell(&mut self, kind: Kind, at: At) {
        self.lints.step(&checker::Event { kind, at });
    }

    fn load(&mut self, place: Place, size: u64) {
        let Some(start) = self.address(place) else { return };
        let end = start + size as usize;
        for line in start / LINE as usize..end.div_ceil(LINE as usize) {
            if let Some(number) = self.dropping.last.remove(&line) {
                self.dropping.loaded.insert(number);
            }
        }
    }

    fn store(&mut self, place: Place, bytes: &[u8], at: At, kind: fn(Write) -> Kind) {
        let Some(mut start) = self.address(place) else { return };
        let mut rest = bytes;
        while !rest.is_empty() {
            let within = start % WORD;
            let (now, later) = rest.split_at(rest.len().min(WORD - within));
            let mut write = Write { word: start / WORD, bytes: [0; WORD], mask: 0 };
            write.bytes[within..within + now.len()].copy_from_slice(now);
            write.mask = (((1u16 << now.len()) - 1) << within) as u8;
            self.tell(kind(write), at);
            (start, rest) = (start + now.len(), later);
        }
    }

    // Where a place of a file is in the checker's memory.
    fn address(&mut self, place: Place) -> Option<usize> {
        let number = *self.file_numbers.entry(place.file).or_insert_with(|| {
            self.files.push(place.file);
            self.files.len() - 1
        });
        let fits = number < MOST_FILES && place.offset < 1 << SPAN;
        fits.then_some((number << SPAN) | place.offset as usize)
    }

    fn number(&mut self, key: Key) -> u32 {
        if let Some(number) = self.numbers.get(&key) {
            return *number;
        }
        let (site, caller) = super::charged::places(self.recording, key);
        let next = self.places.len() as u32;
        let number = *self.known.entry((key.site, caller.clone())).or_insert(next);
        if number == next {
            self.places.push(Named { site, caller });
        }
        self.numbers.insert(key, number);
        number
    }

    /// What was found, by rule, first what occurs most often.
    pub fn finish(self) -> Vec<Finding> {
        let Self { recording, lints, files, places, threads, dropping, .. } = self;
        // What one thread waits for is nothing to another.
        let is_sure = |lint: &Lint| threads.len() < 2 || lint.rule != Rule::RedundantFence;
        let found = lints.finish().into_iter().filter(|lint| lint.at != KERNEL && is_sure(lint));
        let manifest = recording.manifest();
        let told = |mut lint: Lint| {
            let file = (!lint.bytes.is_empty()).then(|| files[lint.bytes.start >> SPAN]);
            let traced = manifest.files.iter().find(|one| Some(one.id) == file);
            if let Some(traced) = traced.filter(|_| files.len() > 1) {
                lint.name = Some(format!("of {}", traced.path));
            }
            let durable_by = durable_by(traced.and_then(|traced| traced.medium));
            let scope = Scope::Files { durable_by, drops: dropping.of(&lint, manifest.about.loads) };
            (lint.rule, finding(lint, file, scope, &places))
        };
        let mut found: Vec<(Rule, Finding)> = found.map(told).collect();
        found.sort_by(|(rule, one), (other_rule, other)| {
            rule.cmp(other_rule).then_with(|| other.count.cmp(&one.count))
        });
        found.into_iter().map(|(_, finding)| finding).collect()
    }
}

fn durable_by(medium: Option<Medium>) -> DurableBy {
    match medium {
        Some(Medium::PageCache) => DurableBy::Msync,
        Some(Medium::Dax) => DurableBy::Flush,
        Some(Medium::Memory) => DurableBy::Nothing,
        None => DurableBy::Unknown,
    }
}

fn finding(mut lint: Lint, file: Option<u32>, scope: Scope, places: &[Named]) -> Finding {
    // Back to an offset in its file.
    let base = lint.bytes.start >> SPAN << SPAN;
    lint.bytes = lint.bytes.start - base..lint.bytes.end - base;
    let of = |at| match at {
        At::Site(number) => places.get(number as usize),
        At::Source(_) => None,
    };
    let name = |at| match of(at) {
        Some(named) => named.to_string(),
        None => "the kernel".into(),
    };
    let mut text = String::new();
    // A string takes whatever is written to it.
    let _ = lint.tell(&mut text, &name, scope);
    let named = of(lint.at);
    Finding {
        rule: lint.rule.to_string(),
        location: named.and_then(|named| named.site.clone()),
        caller: named.and_then(|named| named.caller.clone()),
        count: lint.count as u64,
        file,
        offset: lint.bytes.start as u64,
        size: lint.bytes.len() as u64,
        text,
    }
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.caller, &self.site) {
            (Some(caller), Some(site)) => write!(f, "{caller} by {site}"),
            (Some(place), None) | (None, Some(place)) => write!(f, "{place}"),
            (None, None) => f.write_str("an unknown place"),
        }
    }
}
