//! The events as they go by.

use std::collections::BTreeMap;

use ringfence_persist::Flush;
use rustc_hash::FxHashMap;

use super::blocks::Blocks;
use super::counts::Executed;
use super::key::Key;
use super::lines::{Dirty, Lines, Number, Pending, touched};
use super::races::Races;
use super::sizes::Sizes;
use crate::events::{Action, Event, LINE, Place};

#[derive(Debug, Default)]
struct Thread {
    // Flushed or stored past the caches since the last fence.
    busy: bool,
    // Lines that a fence has something to complete in.
    lines: Vec<Number>,
    blocks: Blocks,
}

#[derive(Debug, Default)]
pub struct Walk {
    pub rows: FxHashMap<Key, Executed>,
    pub sizes: Sizes,
    pub lines: Lines,
    pub races: Races,
    /// Fences by the lines that they waited for.
    pub waits: BTreeMap<u64, u64>,
    /// Lines of non-temporal stores, each once between two fences of a thread.
    pub nt_lines: u64,
    threads: FxHashMap<u32, Thread>,
}

impl Walk {
    /// The next event, and whether it was a flush or fence that was needless.
    pub fn step(&mut self, event: &Event) -> bool {
        let key = Key { site: event.site, callers: event.callers };
        let row = self.rows.entry(key).or_default();
        match &event.action {
            Action::Store { at, bytes } => {
                row.stores += 1;
                row.stored_bytes += bytes.len() as u64;
                self.sizes.ordinary.add(bytes.len());
                self.store(event, key, *at, bytes.len() as u64);
            }
            Action::NonTemporal { at, bytes } => {
                row.nt_stores += 1;
                row.nt_bytes += bytes.len() as u64;
                self.sizes.non_temporal.add(bytes.len());
                self.stream(event, key, *at, bytes.len() as u64);
            }
            Action::Load { size, .. } => {
                row.loads += 1;
                row.loaded_bytes += u64::from(*size);
            }
            Action::Flush { flush, at } => return self.flush(event, key, *flush, *at),
            Action::Sfence => {
                row.sfence += 1;
                return self.fence(event, key, true);
            }
            Action::Mfence => {
                row.mfence += 1;
                return self.fence(event, key, true);
            }
            Action::Locked { stores } => {
                row.locked += 1;
                self.fence(event, key, false);
                let Some((at, bytes)) = stores else { return false };
                self.rows.entry(key).or_default().locked_bytes += bytes.len() as u64;
                for number in touched(*at, bytes.len() as u64) {
                    self.lines.store(number, event.sequence, Dirty::Stored(key));
                    self.races.store_in_order(number);
                }
            }
            Action::SyncRange { .. } => row.sync_ranges += 1,
            Action::Msync { .. } => {
                row.msync += 1;
                self.settle(&event.action);
                self.races.order(event.thread, event.sequence);
            }
            Action::Write { at, bytes } => {
                row.writes += 1;
                row.written_bytes += bytes.len() as u64;
                touched(*at, bytes.len() as u64)
                    .for_each(|line| self.lines.store(line, event.sequence, Dirty::Written));
            }
            Action::Truncate { .. } => self.settle(&event.action),
            Action::Map { .. } | Action::Unmap { .. } | Action::Output { .. } => {}
        }
        false
    }

    fn settle(&mut self, action: &Action) {
        if let Some((file, bytes)) = action.settles() {
            self.lines.settle(file, bytes, action.began());
        }
    }

    fn store(&mut self, event: &Event, key: Key, at: Place, size: u64) {
        for number in touched(at, size) {
            self.lines.store(number, event.sequence, Dirty::Stored(key));
            self.races.store(number, event.thread, event.sequence, event.site);
        }
    }

    fn stream(&mut self, event: &Event, key: Key, at: Place, size: u64) {
        let (thread, sequence) = (event.thread, event.sequence);
        let own = self.threads.entry(thread).or_default();
        own.busy = true;
        self.nt_lines += own.blocks.bytes(at, size);
        for number in touched(at, size) {
            own.lines.push(number);
            self.lines.stream(number, Pending { thread, sequence, key, is_flush: false });
            self.races.store(number, thread, sequence, event.site);
        }
    }

    fn flush(&mut self, event: &Event, key: Key, flush: Flush, at: Place) -> bool {
        let (thread, sequence) = (event.thread, event.sequence);
        let number = (at.file, at.offset / LINE);
        let found = self.lines.flush(number, Pending { thread, sequence, key, is_flush: true });
        let row = self.rows.entry(key).or_default();
        row.flush(flush);
        row.flushed_again += u64::from(found.again);
        row.flushed_again_unchanged += u64::from(found.again && !found.dirty);
        row.clean_flushes += u64::from(!found.again && !found.dirty && !found.others);
        let own = self.threads.entry(thread).or_default();
        own.busy = true;
        if found.dirty || found.others {
            own.lines.push(number);
            own.blocks.line(number);
        }
        !found.dirty && (found.again || !found.others)
    }

    // A locked instruction has other purposes than to wait.
    fn fence(&mut self, event: &Event, key: Key, waits: bool) -> bool {
        self.races.order(event.thread, event.sequence);
        let own = self.threads.entry(event.thread).or_default();
        let (lines, blocks, partial) = own.blocks.take();
        if waits && lines > 0 {
            *self.waits.entry(lines).or_default() += 1;
        }
        let idle = !std::mem::take(&mut own.busy);
        own.lines.drain(..).for_each(|number| self.lines.fence(number, event.thread));
        let row = self.rows.entry(key).or_default();
        row.blocks += blocks;
        row.partial_blocks += partial;
        row.idle_fences += u64::from(waits && idle);
        waits && idle
    }

    /// The end: what is left undone is charged to what did the first half of it.
    pub fn finish(&mut self) {
        for line in std::mem::take(&mut self.lines).into_lines() {
            let last = line.pending.iter().max_by_key(|one| one.sequence);
            match (line.dirty, last) {
                (Some(Dirty::Stored(key)), _) => {
                    self.rows.entry(key).or_default().unflushed_lines += 1;
                }
                (None, Some(last)) => self.rows.entry(last.key).or_default().unfenced_lines += 1,
                (Some(Dirty::Written), _) | (None, None) => {}
            }
        }
    }
}
