//! A line that the first level does not have.

use super::state::{First, Hierarchy, each};
use crate::hardware::cache::{ALL_WAYS, Slot};
use crate::hardware::event::{Event, Request};
use crate::hardware::machine::Inclusion;
use crate::hardware::units::NEVER;

/// Where a line comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// From a cache, at this time.
    Cache(u64),
    /// From memory, which will say when.
    Memory,
}

/// What a line is fetched for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Want {
    /// To be read.
    Read,
    /// To be written in part, or by instructions that do not say that they write all of it.
    Own,
    /// To be written as a whole, so that its content is not needed.
    Whole,
}

impl Hierarchy {
    /// Brings a line into a core's first level, for a fill buffer that waits for it.
    /// Its place is taken at once, and what makes room leaves at once.
    pub fn fetch(
        &mut self,
        core: usize,
        class: usize,
        (line, want): (u32, Want),
        buffer: u8,
        at: u64,
    ) -> (Source, Slot) {
        let own = want != Want::Read;
        self.llcs[self.cores[core].place.llc].cache.ahead(line);
        let others = self.pages.touch(line, core);
        self.counters[core].l1_misses += 1;
        let private = &mut self.cores[core];
        if let Some(slot) = private.l2.find(line) {
            private.l2.touch(slot);
            self.counters[core].l2_hits += 1;
            let mut ready = at + self.times.l2;
            if own && others != 0 {
                ready = ready.max(self.own(core, line, others, at));
            }
            if let Some(until) = self.cores[core].streamer.comes(line, buffer, at) {
                ready = ready.max(until);
            }
            let place = self.fill_first(core, line, First { ready, second: slot });
            self.run_ahead(core, class, (line, want), at);
            return (if ready == NEVER { Source::Memory } else { Source::Cache(ready) }, place);
        }
        if let Some(leaving) = self.cores[core].l2.leaving(line) {
            self.llcs[self.cores[core].place.llc].cache.ahead(leaving);
        }
        let passed = self.throttle(core, class, at);
        let (ready, dirty) = self.bring(core, class, (line, want), (others, buffer), passed);
        let second = self.fill_second(core, class, line, dirty, passed);
        let slot = self.fill_first(core, line, First { ready: ready.unwrap_or(NEVER), second });
        self.run_ahead(core, class, (line, want), at);
        (ready.map_or(Source::Memory, Source::Cache), slot)
    }

    /// Takes a line from where it is, for a core whose own caches do not have it: when it is there,
    /// unless memory has to say, which is asked then; and whether it was dirty, which goes along.
    #[inline(always)]
    pub(super) fn bring(
        &mut self,
        core: usize,
        class: usize,
        (line, want): (u32, Want),
        (others, buffer): (u64, u8),
        at: u64,
    ) -> (Option<u64>, bool) {
        let own = want != Want::Read;
        let (mut ready, mut dirty) = (None, false);
        if others != 0 {
            (ready, dirty) = self.ask_others(line, own, others, at);
            self.counters[core].other_core_hits += u64::from(ready.is_some());
        }
        let llc = self.cores[core].place.llc;
        let last = &mut self.llcs[llc];
        let mut in_last = false;
        if let Some(slot) = last.cache.find(line) {
            if ready.is_none() {
                ready = Some(at + self.times.llc);
                self.counters[core].llc_hits += 1;
            }
            if self.inclusion == Inclusion::Victim {
                dirty |= last.remove(slot);
            } else {
                in_last = true;
                dirty |= last.cache.clean(slot);
                last.cache.touch(slot);
            }
        } else {
            last.cache.missed(line);
        }
        if others & !self.llcs[llc].cores != 0 {
            let (found, was) = self.ask_other_llcs(line, own, llc, others, at);
            ready = ready.or(found);
            dirty |= was;
        }
        if ready.is_none() && want == Want::Whole {
            ready = Some(at + self.times.llc);
        }
        if ready.is_none() {
            self.counters[core].memory_reads += 1;
            let arrival =
                self.limit(llc, class, at) + self.times.to_memory + self.distance(core, line);
            let request = Request { line, core: core as u8, buffer, probe: false };
            self.log.wheel.push(arrival, core as u32, Event::Read(request));
        }
        if self.inclusion != Inclusion::Victim && !in_last {
            self.fill_last(core, class, line, false, at);
        }
        (ready, dirty)
    }

    /// A core that has a line takes it from all others, to write it; when it may.
    pub fn own(&mut self, core: usize, line: u32, others: u64, at: u64) -> u64 {
        let (found, mut dirty) = self.ask_others(line, true, others, at);
        let llc = self.cores[core].place.llc;
        let mut ready = found.unwrap_or(at);
        // What another core gave up may be below.
        let last = &mut self.llcs[llc];
        if let Some(slot) = last.cache.find(line) {
            dirty |= if self.inclusion == Inclusion::Victim {
                last.remove(slot)
            } else {
                last.cache.clean(slot)
            };
        }
        if others & !self.llcs[llc].cores != 0 {
            let (found, was) = self.ask_other_llcs(line, true, llc, others, at);
            ready = ready.max(found.unwrap_or(at));
            dirty |= was;
        }
        let private = &mut self.cores[core];
        if dirty && let Some(slot) = private.l2.find(line) {
            private.l2.dirty(slot);
        }
        ready
    }

    // Whether other cores have a line, and when it can come from them; their copies go, or become
    // clean. What they still wait for themselves does not come from them.
    fn ask_others(&mut self, line: u32, own: bool, others: u64, at: u64) -> (Option<u64>, bool) {
        let (mut ready, mut dirty) = (None, false);
        for other in each(others) {
            let private = &mut self.cores[other];
            let there = private.l1.find(line).map_or(0, |slot| private.first[slot as usize].ready);
            let found = if own { private.take(line) } else { private.clean(line) };
            let Some(was) = found else { continue };
            dirty |= was;
            if there != NEVER {
                ready = Some((at + self.times.core_to_core).max(there));
            }
        }
        (ready, dirty)
    }

    // The same for the last-level caches that other cores filled.
    fn ask_other_llcs(
        &mut self,
        line: u32,
        own: bool,
        except: usize,
        others: u64,
        at: u64,
    ) -> (Option<u64>, bool) {
        let (mut ready, mut dirty) = (None, false);
        let socket = self.llcs[except].cores.trailing_zeros() as usize;
        let socket = self.cores[socket].place.socket;
        for other in (0..self.llcs.len()).filter(|other| *other != except) {
            let last = &mut self.llcs[other];
            if last.cores & others == 0 {
                continue;
            }
            let Some(slot) = last.cache.find(line) else { continue };
            dirty |= if own || self.inclusion == Inclusion::Victim {
                last.remove(slot)
            } else {
                last.cache.clean(slot)
            };
            let there = self.cores[last.cores.trailing_zeros() as usize].place.socket;
            let far = if there == socket { 0 } else { 2 * self.times.remote };
            ready = Some(at + self.times.llc + self.times.core_to_core + far);
        }
        (ready, dirty)
    }

    fn fill_first(&mut self, core: usize, line: u32, known: First) -> Slot {
        let private = &mut self.cores[core];
        let (slot, evicted) = private.l1.insert(line, false, ALL_WAYS);
        let old = std::mem::replace(&mut private.first[slot as usize], known);
        if evicted.is_some_and(|evicted| evicted.dirty) {
            private.l2.dirty(old.second);
        }
        slot
    }
}
