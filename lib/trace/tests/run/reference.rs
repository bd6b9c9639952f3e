//! The census once more, told as plainly as possible: for every event, the whole past is looked at.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use ringfence_trace::census::dynamic::Executed;
use ringfence_trace::events::{Action, Event};

pub type Line = (u32, u64);

pub struct Reference<'e> {
    events: &'e [Event],
    // Of each event, whether it is a flush that wrote something back.
    effective: Vec<bool>,
}

fn lines(action: &Action) -> BTreeSet<Line> {
    let Some((at, bytes)) = action.stores() else { return BTreeSet::new() };
    (at.offset..at.offset + bytes.len() as u64).map(|byte| (at.file, byte / 64)).collect()
}

fn is_fence(action: &Action) -> bool {
    matches!(action, Action::Sfence | Action::Mfence | Action::Locked { .. })
}

fn flushes(action: &Action) -> Option<Line> {
    match action {
        Action::Flush { at, .. } => Some((at.file, at.offset / 64)),
        _ => None,
    }
}

// Whether it makes a line durable, or ends it.
fn settles(action: &Action, (file, line): Line) -> bool {
    match action {
        Action::Msync { at, size, .. } => {
            let (first, end) = (at.offset / 4096, (at.offset + size).div_ceil(4096));
            at.file == file && (first..end).contains(&(line * 64 / 4096))
        }
        Action::Truncate { file: truncated, size } => *truncated == file && line * 64 >= *size,
        _ => false,
    }
}

// What an action adds by itself, whatever came before it.
fn add(row: &mut Executed, action: &Action) {
    let stored = action.stores().map_or(0, |(_, bytes)| bytes.len() as u64);
    match action {
        Action::Store { .. } => {
            (row.stores, row.stored_bytes) = (row.stores + 1, row.stored_bytes + stored)
        }
        Action::NonTemporal { .. } => {
            (row.nt_stores, row.nt_bytes) = (row.nt_stores + 1, row.nt_bytes + stored);
        }
        Action::Load { size, .. } => {
            (row.loads, row.loaded_bytes) = (row.loads + 1, row.loaded_bytes + u64::from(*size));
        }
        Action::Flush { flush, .. } => match flush.name() {
            "clflush" => row.clflush += 1,
            "clflushopt" => row.clflushopt += 1,
            _ => row.clwb += 1,
        },
        Action::Sfence => row.sfence += 1,
        Action::Mfence => row.mfence += 1,
        Action::Locked { .. } => {
            (row.locked, row.locked_bytes) = (row.locked + 1, row.locked_bytes + stored)
        }
        Action::Msync { .. } => row.msync += 1,
        Action::SyncRange { .. } => row.sync_ranges += 1,
        Action::Write { .. } => {
            (row.writes, row.written_bytes) = (row.writes + 1, row.written_bytes + stored)
        }
        Action::Map { .. } | Action::Unmap { .. } => {}
        Action::Truncate { .. } | Action::Output { .. } => {}
    }
}

impl<'e> Reference<'e> {
    pub fn new(events: &'e [Event]) -> Self {
        let mut this = Self { events, effective: Vec::new() };
        for (i, event) in events.iter().enumerate() {
            let effective = flushes(&event.action).is_some_and(|line| {
                this.dirty(i, line).is_some()
                    || this.flushed(i, line).iter().any(|k| this.thread(*k) != event.thread)
            });
            this.effective.push(effective);
        }
        this
    }

    fn thread(&self, i: usize) -> u32 {
        self.events[i].thread
    }

    // The last event that stored to a line in the cache, if nothing has written it back before
    // event `i`.
    fn dirty(&self, i: usize, line: Line) -> Option<usize> {
        for j in (0..i).rev() {
            let action = &self.events[j].action;
            if self.settled(j, i, line) || flushes(action) == Some(line) {
                return None;
            }
            if lines(action).contains(&line) && !matches!(action, Action::NonTemporal { .. }) {
                return Some(j);
            }
        }
        None
    }

    fn fenced(&self, k: usize, i: usize) -> bool {
        let thread = self.thread(k);
        self.events[k + 1..i].iter().any(|event| event.thread == thread && is_fence(&event.action))
    }

    // Whether event `k` came before the beginning of something that settles the line before event
    // `i`.
    fn settled(&self, k: usize, i: usize, line: Line) -> bool {
        let covers = |action: &Action| match action {
            Action::Msync { began: Some(began), .. } => self.events[k].sequence <= *began,
            _ => true,
        };
        self.events[k + 1..i]
            .iter()
            .any(|event| settles(&event.action, line) && covers(&event.action))
    }

    // Flushes of a line that wrote something back and that nothing has completed before event `i`.
    fn flushed(&self, i: usize, line: Line) -> Vec<usize> {
        let of_it =
            |k: &usize| self.effective[*k] && flushes(&self.events[*k].action) == Some(line);
        let open = |k: &usize| {
            let completed = (*k..i).filter(of_it).any(|m| self.fenced(m, i));
            !completed && !self.settled(*k, i, line)
        };
        (0..i).filter(of_it).filter(open).collect()
    }

    // Non-temporal stores likewise.
    fn streamed(&self, i: usize, line: Line) -> Vec<usize> {
        let of_it = |k: &usize| {
            let action = &self.events[*k].action;
            matches!(action, Action::NonTemporal { .. }) && lines(action).contains(&line)
        };
        let open = |k: &usize| !self.fenced(*k, i) && !self.settled(*k, i, line);
        (0..i).filter(of_it).filter(open).collect()
    }

    fn all_lines(&self) -> BTreeSet<Line> {
        self.events.iter().flat_map(|event| lines(&event.action)).collect()
    }

    // What a thread did between its fence before event `i`, and that.
    fn since_fence(&self, i: usize) -> impl Iterator<Item = usize> + '_ {
        let thread = self.thread(i);
        let own = move |j: &usize| self.thread(*j) == thread;
        (0..i).rev().filter(own).take_while(|j| !is_fence(&self.events[*j].action))
    }

    /// By site and callers.
    pub fn executed(&self) -> HashMap<(u32, u32), Executed> {
        let mut rows: HashMap<(u32, u32), Executed> = HashMap::new();
        let key = |event: &Event| (event.site, event.callers);
        for (i, event) in self.events.iter().enumerate() {
            let row = rows.entry(key(event)).or_default();
            add(row, &event.action);
            if let Some(line) = flushes(&event.action) {
                let before = self.flushed(i, line);
                let own = before.iter().any(|k| self.thread(*k) == event.thread);
                let dirty = self.dirty(i, line).is_some();
                row.flushed_again += u64::from(own);
                row.flushed_again_unchanged += u64::from(own && !dirty);
                row.clean_flushes += u64::from(before.is_empty() && !dirty);
            }
            if is_fence(&event.action) {
                let sent = |j: &usize| {
                    let action = &self.events[*j].action;
                    flushes(action).is_some() || matches!(action, Action::NonTemporal { .. })
                };
                let waits = !matches!(event.action, Action::Locked { .. });
                row.idle_fences += u64::from(waits && !self.since_fence(i).any(|j| sent(&j)));
                let mut bytes = BTreeSet::new();
                for j in self.since_fence(i) {
                    let action = &self.events[j].action;
                    if let (Some((file, line)), true) = (flushes(action), self.effective[j]) {
                        bytes.extend((line * 64..line * 64 + 64).map(|byte| (file, byte)));
                    }
                    if let Action::NonTemporal { at, bytes: stored } = action {
                        bytes.extend(
                            (at.offset..at.offset + stored.len() as u64)
                                .map(|byte| (at.file, byte)),
                        );
                    }
                }
                let mut blocks: BTreeMap<Line, u64> = BTreeMap::new();
                bytes
                    .iter()
                    .for_each(|(file, byte)| *blocks.entry((*file, byte / 256)).or_default() += 1);
                row.blocks += blocks.len() as u64;
                row.partial_blocks += blocks.values().filter(|bytes| **bytes < 256).count() as u64;
            }
        }
        let end = self.events.len();
        for line in self.all_lines() {
            if let Some(j) = self.dirty(end, line) {
                let by_kernel = matches!(self.events[j].action, Action::Write { .. });
                rows.entry(key(&self.events[j])).or_default().unflushed_lines +=
                    u64::from(!by_kernel);
            } else if let Some(k) =
                self.flushed(end, line).into_iter().chain(self.streamed(end, line)).max()
            {
                rows.entry(key(&self.events[k])).or_default().unfenced_lines += 1;
            }
        }
        rows
    }

    pub fn most_dirty_lines(&self) -> u64 {
        let all = self.all_lines();
        let dirty = |i| all.iter().filter(|line| self.dirty(i, **line).is_some()).count() as u64;
        (0..=self.events.len()).map(dirty).max().unwrap_or(0)
    }

    /// By the two sites.
    pub fn races(&self) -> BTreeMap<(u32, u32), u64> {
        let mut races = BTreeMap::new();
        let by_program = |action: &Action| !matches!(action, Action::Write { .. });
        let orders = |action: &Action| is_fence(action) || matches!(action, Action::Msync { .. });
        for (j, event) in self.events.iter().enumerate() {
            if !matches!(event.action, Action::Store { .. } | Action::NonTemporal { .. }) {
                continue;
            }
            for line in lines(&event.action) {
                let stored = |p: &usize| {
                    let action = &self.events[*p].action;
                    by_program(action) && lines(action).contains(&line)
                };
                let Some(p) = (0..j).rev().find(stored) else { continue };
                let (first, second) = (self.thread(p), event.thread);
                let mut between = self.events[p..j].iter().enumerate();
                let ordered = between.any(|(n, event)| {
                    // The store itself, where it is a locked one.
                    let own = event.thread == first || (n > 0 && event.thread == second);
                    own && orders(&event.action)
                });
                if first != second && !ordered {
                    *races.entry((self.events[p].site, event.site)).or_default() += 1;
                }
            }
        }
        races
    }
}
