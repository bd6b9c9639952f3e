//! The lints of the crash checker over a recording: its events as the checker's own.

use std::fmt;

use ringfence_crashcheck as checker;
use ringfence_crashcheck::{
    At, Drops, DurableBy, Kind, Lint, Lints, Profile, Rule, Scope, WORD, Write,
};
use ringfence_persist::Flush;
use rustc_hash::{FxHashMap, FxHashSet};
use serde::Serialize;

use super::attribution;
use super::fates::{Fate, Fates};
use super::key::Key;
use crate::events::{Action, Event, LINE, Location, Medium, Place};
use crate::recording::Reader;

// Files are one memory to the checker: each begins so far behind the one before.
const SPAN: u32 = 44;

// As many as addresses of a memory leave room for.
const MOST_FILES: usize = 1 << 19;

// What the kernel wrote: no instruction is asked to flush it.
const KERNEL: At = At::Site(u32::MAX);

/// What the crash checker finds wrong or wasteful at one place, in the recorded run, by some
/// processors' rules ([`Run::rules`](super::Run::rules)). All threads are one to it: a fence of one
/// counts for all.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "CrashFinding"))]
pub struct Finding {
    /// The rule, by its name in the crash checker.
    pub rule: String,
    /// The instruction; `None` where it is not known.
    pub location: Option<Location>,
    /// The innermost call from outside of the program or library that it is in, if there is one.
    pub caller: Option<Location>,
    /// How often.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub count: u64,
    /// The file of the first of it, by its number; `None` for a fence.
    pub file: Option<u32>,
    /// The first byte concerned in it.
    pub offset: u64,
    /// Bytes concerned.
    pub size: u64,
    /// A sentence: where, what is the matter, what to do.
    pub text: String,
    /// How sure it is that something is the matter.
    pub confidence: Confidence,
    /// Whether it is work of the program, or of a library that came with it. The C library and
    /// libpmem work for their callers.
    pub own: bool,
    /// Whether it comes from the making of a pool by PMDK's libraries.
    pub makes_pool: bool,
}

impl Finding {
    /// Whether data may be lost by it; other findings only cost time.
    pub fn endangers_data(&self) -> bool {
        let rules = [Rule::NeverDurable, Rule::MissingFence, Rule::AcknowledgedTooEarly];
        rules.iter().any(|rule| rule.to_string() == self.rule)
    }
}

/// How sure a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    /// All that happened at the place says so.
    High,
    /// A good part of it does.
    Medium,
    /// It may be so.
    Low,
}

/// A share of flushes. With at least as many needless ones, a place is in doubt. Like [`RARELY`] it
/// was found on 13 programs with published lists of such places, and has not been checked on
/// others.
pub const MANY_NEEDLESS: f64 = 0.1;

/// A share of stores. A place is in doubt if at most this share is flushed before it is
/// overwritten.
pub const RARELY: f64 = 0.05;

/// The checker at work on a recording.
pub struct Findings<'r> {
    recording: &'r Reader,
    rules: Profile,
    lints: Lints,
    files: Vec<u32>,
    // Where each is among them.
    file_numbers: FxHashMap<u32, usize>,
    // By site and callers, the number that the checker knows a place by.
    numbers: FxHashMap<Key, u32>,
    places: Vec<Named>,
    // The same of places, as several callers may have been called from one.
    known: FxHashMap<(u32, Option<Location>, bool), u32>,
    fates: Fates,
    // Flushes and fences by the number of their places.
    done: FxHashMap<u32, u64>,
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
    makes_pool: bool,
}

impl<'r> Findings<'r> {
    pub fn new(recording: &'r Reader, rules: Profile) -> Self {
        Self {
            recording,
            rules,
            lints: Lints::new(rules),
            files: Vec::new(),
            file_numbers: FxHashMap::default(),
            numbers: FxHashMap::default(),
            places: Vec::new(),
            known: FxHashMap::default(),
            threads: FxHashSet::default(),
            dropping: Dropping::default(),
            fates: Fates::default(),
            done: FxHashMap::default(),
        }
    }

    /// The next event.
    pub fn step(&mut self, event: &Event) {
        self.threads.insert(event.thread);
        self.lints.number(event.sequence);
        let number = self.number(Key { site: event.site, callers: event.callers });
        let at = At::Site(number);
        self.fates.step(number, event);
        if matches!(event.action, Action::Flush { .. } | Action::Sfence | Action::Mfence) {
            *self.done.entry(number).or_default() += 1;
        }
        match &event.action {
            Action::Store { at: place, bytes } => self.store(*place, bytes, at, Kind::Store),
            Action::NonTemporal { at: place, bytes } => self.store(*place, bytes, at, Kind::Stream),
            Action::Locked { stores: Some((place, bytes)) } => {
                self.store(*place, bytes, at, Kind::Locked)
            }
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
            Action::SyncRange { .. } | Action::Output { .. } => {}
            Action::Msync { .. } | Action::Truncate { .. } => {
                if let Some((file, bytes)) = event.action.settles()
                    && let Some(start) = self.address(Place { file, offset: 0 })
                {
                    let end = |offset: u64| start + offset.min((1 << SPAN) - 1) as usize;
                    self.lints.settle(end(bytes.start)..end(bytes.end), event.action.began());
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
        let (site, caller) = attribution::places(self.recording, key);
        let makes_pool = attribution::makes_pool(&attribution::frames(self.recording, key));
        let next = self.places.len() as u32;
        let number = *self.known.entry((key.site, caller.clone(), makes_pool)).or_insert(next);
        if number == next {
            self.places.push(Named { site, caller, makes_pool });
        }
        self.numbers.insert(key, number);
        number
    }

    /// The findings: those in the program's own code first, then by confidence, then by frequency.
    /// What comes from the making of pools is last. `all_seen` says whether what is missing in the
    /// recording was missing in the run.
    pub fn finish(mut self, all_seen: bool) -> Vec<Finding> {
        let lints = std::mem::replace(&mut self.lints, Lints::new(self.rules)).finish();
        // What one thread waits for is nothing to another.
        let is_sure = |lint: &Lint| match lint.rule {
            Rule::RedundantFence => self.threads.len() < 2,
            Rule::NeverDurable | Rule::MissingFence => all_seen,
            _ => true,
        };
        let lints: Vec<Lint> =
            lints.into_iter().filter(|lint| lint.at != KERNEL && is_sure(lint)).collect();
        let lost: FxHashSet<At> = lints
            .iter()
            .filter(|lint| lint.rule == Rule::NeverDurable)
            .map(|lint| lint.at)
            .collect();
        let rare = self.fates.found.iter().filter(|(number, fate)| {
            all_seen
                && self.rules != Profile::Eadr
                && is_rare(fate)
                && !lost.contains(&At::Site(**number))
        });
        let rare = rare.map(|(number, fate)| (RARELY_FLUSHED, self.rarely(*number, fate)));
        let found =
            self.merged(lints).into_iter().map(|lint| (lint.rule as usize, self.finding(lint)));
        let mut found: Vec<(usize, Finding)> = found.chain(rare).collect();
        found.sort_by(|(rule, one), (other_rule, other)| {
            let key = |one: &Finding| (one.makes_pool, !one.own, one.confidence);
            let order = key(one)
                .cmp(&key(other))
                .then(other.count.cmp(&one.count))
                .then(rule.cmp(other_rule));
            order.then_with(|| one.text.cmp(&other.text))
        });
        found.into_iter().map(|(_, finding)| finding).collect()
    }

    fn named(&self, at: At) -> Option<&Named> {
        match at {
            At::Site(number) => self.places.get(number as usize),
            At::Source(_) => None,
        }
    }

    // Stores of one copy that touch or overlap are one: `memcpy` stores both ends of its bytes,
    // which may overlap.
    fn merged(&self, lints: Vec<Lint>) -> Vec<Lint> {
        let mut merged: Vec<Lint> = Vec::new();
        let mut last: FxHashMap<(Rule, Call), usize> = FxHashMap::default();
        for lint in lints {
            let is_of_stores =
                matches!(lint.rule, Rule::NeverDurable | Rule::MissingFence | Rule::PartialBlock);
            let call = self.named(lint.at).and_then(Named::copy).filter(|_| is_of_stores);
            let Some(call) = call else {
                merged.push(lint);
                continue;
            };
            match last.get(&(lint.rule, call.clone())) {
                Some(index) if meet(&merged[*index].bytes, &lint.bytes) => {
                    let known = &mut merged[*index];
                    known.count = known.count.max(lint.count);
                    known.bytes = known.bytes.start.min(lint.bytes.start)
                        ..known.bytes.end.max(lint.bytes.end);
                }
                _ => {
                    last.insert((lint.rule, call), merged.len());
                    merged.push(lint);
                }
            }
        }
        merged
    }

    fn scope(&self, file: Option<u32>, drops: Drops) -> Scope {
        let traced = self.recording.manifest().files.iter().find(|one| Some(one.id) == file);
        Scope::Files { durable_by: durable_by(traced.and_then(|traced| traced.medium)), drops }
    }

    fn finding(&self, mut lint: Lint) -> Finding {
        let confidence = self.confidence(&lint);
        let file = (!lint.bytes.is_empty()).then(|| self.files[lint.bytes.start >> SPAN]);
        lint.name = file.and_then(|file| self.of_file(file));
        // Back to an offset in its file.
        let base = lint.bytes.start >> SPAN << SPAN;
        lint.bytes = lint.bytes.start - base..lint.bytes.end - base;
        let name = |at| match self.named(at) {
            Some(named) => named.to_string(),
            None => "the kernel".into(),
        };
        let scope =
            self.scope(file, self.dropping.of(&lint, self.recording.manifest().about.loads));
        let mut text = String::new();
        // A string takes whatever is written to it.
        let _ = lint.tell(&mut text, &name, scope);
        let named = self.named(lint.at);
        Finding {
            rule: lint.rule.to_string(),
            location: named.and_then(|named| named.site.clone()),
            caller: named.and_then(|named| named.caller.clone()),
            count: lint.count as u64,
            file,
            offset: lint.bytes.start as u64,
            size: lint.bytes.len() as u64,
            text,
            confidence,
            own: named.is_some_and(Named::is_own),
            makes_pool: named.is_some_and(|named| named.makes_pool),
        }
    }

    // Of several files, which one.
    fn of_file(&self, file: u32) -> Option<String> {
        let traced = self.recording.manifest().files.iter().find(|one| one.id == file)?;
        (self.files.len() > 1).then(|| format!("of {}", traced.path))
    }

    fn confidence(&self, lint: &Lint) -> Confidence {
        let At::Site(number) = lint.at else { return Confidence::Low };
        match lint.rule {
            Rule::NeverDurable => match self.fates.found.get(&number) {
                Some(fate) if !is_rare(fate) => Confidence::Medium,
                _ => Confidence::High,
            },
            Rule::MissingFence | Rule::AcknowledgedTooEarly => Confidence::High,
            Rule::CleanFlush | Rule::RedundantFlush | Rule::RedundantFence => {
                let share =
                    lint.count as f64 / self.done.get(&number).map_or(1.0, |done| *done as f64);
                match share {
                    // What a fence completes elsewhere is not recorded.
                    share if share >= 1.0 && lint.rule != Rule::RedundantFence => Confidence::High,
                    share if share >= MANY_NEEDLESS => Confidence::Medium,
                    _ => Confidence::Low,
                }
            }
            Rule::FlushUnderEadr => Confidence::High,
            Rule::FlushedTwice | Rule::PartialBlock | Rule::UncoveredField => Confidence::Low,
        }
    }

    fn rarely(&self, number: u32, fate: &Fate) -> Finding {
        let named = &self.places[number as usize];
        let stores = match fate.stores {
            1 => "the store was not flushed before it was overwritten".into(),
            many => format!(
                "{} of {many} stores were not flushed before they were overwritten",
                many - fate.flushed
            ),
        };
        let file =
            self.of_file(fate.first.file).map(|file| format!(" ({file})")).unwrap_or_default();
        let durable =
            self.scope(Some(fate.first.file), Drops::No).durable("it", "flush it, then fence");
        let at = fate.first.offset;
        Finding {
            rule: "rarely flushed".into(),
            location: named.site.clone(),
            caller: named.caller.clone(),
            count: fate.stores - fate.flushed,
            file: Some(fate.first.file),
            offset: at,
            size: fate.size,
            text: format!(
                "{named}: rarely flushed: {stores}, first at {at}{file}: if the data must \
                 last, {durable}"
            ),
            confidence: Confidence::Low,
            own: named.is_own(),
            makes_pool: named.makes_pool,
        }
    }
}

// Behind the crash checker's rules.
const RARELY_FLUSHED: usize = usize::MAX;

fn is_rare(fate: &Fate) -> bool {
    fate.stores > 0 && fate.flushed as f64 <= RARELY * fate.stores as f64
}

// A function of a library, and the call of it.
type Call = (String, String, Location);

fn meet(one: &std::ops::Range<usize>, other: &std::ops::Range<usize>) -> bool {
    one.start <= other.end && other.start <= one.end
}

impl Named {
    fn is_own(&self) -> bool {
        attribution::is_own_work(self.site.as_ref(), self.caller.as_ref())
    }

    // Of a function that copies bytes.
    fn copy(&self) -> Option<Call> {
        let (site, caller) =
            (self.site.as_ref().filter(|site| attribution::is_copy(site))?, self.caller.as_ref()?);
        Some((site.module.clone(), site.function.clone().unwrap_or_default(), caller.clone()))
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

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.caller, &self.site) {
            (Some(caller), Some(site)) => write!(f, "{caller} by {site}"),
            (Some(place), None) | (None, Some(place)) => write!(f, "{place}"),
            (None, None) => f.write_str("an unknown place"),
        }
    }
}
