//! Lines that are written back because an instruction says so.

use ringfence_persist::Flush;

use super::state::{Hierarchy, each};
use crate::hardware::event::Request;
use crate::hardware::machine::{AfterClwb, Inclusion};
use crate::hardware::pages::Pages;

/// What becomes of a flush.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Departure {
    /// The line is on its way to memory, or was before; memory will say when it is accepted.
    Sent,
    /// The line was nowhere dirty; it is known at this time.
    Clean(u64),
}

/// How a line was found in the caches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    Dirty,
    Clean,
    Nowhere,
}

impl Hierarchy {
    /// A core flushes a line, for a fill buffer that waits.
    #[inline]
    pub fn flush(
        &mut self,
        core: usize,
        class: usize,
        (kind, line): (Flush, u32),
        buffer: u8,
        at: u64,
    ) -> Departure {
        let at = self.throttle(core, class, at);
        let after = if kind == Flush::Clwb { self.clwb } else { AfterClwb::Invalidated };
        let found = self.write_back(core, class, line, after, at);
        let counters = &mut self.counters[core];
        if found == Found::Dirty {
            counters.dirty_flushes += 1;
            let longer = if kind == Flush::Clwb { self.times.clwb } else { self.times.flush };
            self.send(Request { line, core: core as u8, buffer, probe: false }, None, at, longer);
            return Departure::Sent;
        }
        counters.clean_flushes += 1;
        if let Some(arrival) = self.under_way.arrival(line) {
            // What was evicted, or flushed before, is not durable yet. What asks after it must not
            // be there first, whichever way either takes.
            self.ask(Request { line, core: core as u8, buffer, probe: true }, at, arrival + 1);
            return Departure::Sent;
        }
        let takes = if found == Found::Nowhere { self.times.absent } else { self.times.llc };
        Departure::Clean(at + takes)
    }

    /// A core's write-combining buffer leaves for memory. What caches have of the line goes with
    /// it.
    pub fn write_past(
        &mut self,
        core: usize,
        class: usize,
        (thread, line): (u32, u32),
        buffer: u8,
        at: u64,
    ) {
        let at = self.throttle(core, class, at);
        if self.pages.cores(line) != 0 {
            self.write_back(core, class, line, AfterClwb::Invalidated, at);
        }
        self.counters[core].nt_lines += 1;
        self.send(
            Request { line, core: core as u8, buffer, probe: false },
            Some(thread),
            at,
            self.times.nt,
        );
    }

    /// Empties the ways that a class may fill of a core's last level.
    pub fn empty(&mut self, core: usize, class: usize, at: u64) {
        let llc = self.cores[core].place.llc;
        for (slot, line) in self.llcs[llc].cache.in_ways(self.classes[class].ways) {
            if Pages::is_of_nobody(line) {
                self.llcs[llc].remove(slot);
            } else {
                self.take_out(core, class, line, at);
            }
        }
    }

    /// Takes a line from wherever it is, and puts it into a core's last level.
    pub fn refill(&mut self, core: usize, class: usize, line: u32, at: u64) {
        self.take_out(core, class, line, at);
        self.pages.touch(line, core);
        self.fill_last(core, class, line, false, at);
    }

    // Takes a line out of all caches, to memory if it is dirty.
    fn take_out(&mut self, core: usize, class: usize, line: u32, at: u64) {
        if self.write_back(core, class, line, AfterClwb::Invalidated, at) == Found::Dirty {
            let request = Request { line, core: core as u8, buffer: Request::NOBODY, probe: false };
            self.send(request, None, at, 0);
        }
    }

    // Cleans a line in all caches, and removes it unless it may stay; returns how it was found.
    fn write_back(
        &mut self,
        core: usize,
        class: usize,
        line: u32,
        after: AfterClwb,
        at: u64,
    ) -> Found {
        let cores = self.pages.cores(line);
        let (mut dirty, mut above, mut below, mut in_last) = (false, false, false, false);
        for other in each(cores) {
            let private = &mut self.cores[other];
            let found =
                if after == AfterClwb::Kept { private.clean(line) } else { private.take(line) };
            above |= found.is_some();
            dirty |= found.unwrap_or(false);
        }
        // What is in a core's own caches is not in a last level that gave it up, unless another
        // core had it too.
        let alone = cores == 1 << core;
        if !(self.inclusion == Inclusion::Victim && above && alone) {
            let own = self.cores[core].place.llc;
            for (llc, last) in self.llcs.iter_mut().enumerate() {
                if last.cores & cores == 0 {
                    continue;
                }
                let Some(slot) = last.cache.find(line) else { continue };
                below = true;
                dirty |= if after == AfterClwb::Invalidated {
                    last.remove(slot)
                } else {
                    last.cache.clean(slot)
                };
                in_last |= llc == own;
            }
        }
        if after == AfterClwb::MovedToLlc && above && !in_last {
            self.fill_last(core, class, line, false, at);
        }
        match (dirty, above || below) {
            (true, _) => Found::Dirty,
            (false, true) => Found::Clean,
            (false, false) => Found::Nowhere,
        }
    }
}
