//! Lines that make room for others.

use super::state::{Hierarchy, each};
use crate::hardware::cache::{ALL_WAYS, Slot};
use crate::hardware::event::Request;
use crate::hardware::machine::Inclusion;
use crate::hardware::pages::Pages;

impl Hierarchy {
    /// Fills the last-level caches with clean lines without an owner, of the first class, like
    /// those of a machine that has run for long.
    pub fn fill_last_levels(&mut self) {
        for last in &mut self.llcs {
            let lines = last.cache.capacity();
            (0..lines).for_each(|number| {
                last.cache.insert(Pages::of_nobody(number), false, ALL_WAYS);
            });
            last.occupancy[0] = lines.into();
        }
    }

    /// Puts a line into a core's second level; where. What it replaces leaves the first level too.
    pub(super) fn fill_second(
        &mut self,
        core: usize,
        class: usize,
        line: u32,
        dirty: bool,
        at: u64,
    ) -> Slot {
        let private = &mut self.cores[core];
        let (slot, evicted) = private.l2.insert(line, dirty, self.classes[class].second);
        private.l2.own(slot, class as u8);
        let Some(evicted) = evicted else { return slot };
        let mut dirty = evicted.dirty;
        if let Some(slot) = private.l1.find(evicted.line) {
            dirty |= private.l1.remove(slot);
        }
        let victim = self.inclusion == Inclusion::Victim;
        if !victim && !dirty {
            return slot;
        }
        let last = &mut self.llcs[private.place.llc];
        // What only this core ever had came out of the last level, if it was there.
        let alone = victim && self.pages.cores(evicted.line) == 1 << core;
        let below = if alone { None } else { last.cache.find(evicted.line) };
        match below {
            Some(below) => {
                if dirty {
                    last.cache.dirty(below);
                }
                last.cache.touch(below);
            }
            None => self.fill_last(core, class, evicted.line, dirty, at),
        }
        slot
    }

    /// Puts a line that is not there into a core's last-level cache. What it replaces leaves, if
    /// that must contain what the levels above contain, these too; what of it is dirty goes to
    /// memory.
    pub(super) fn fill_last(&mut self, core: usize, class: usize, line: u32, dirty: bool, at: u64) {
        let llc = self.cores[core].place.llc;
        let last = &mut self.llcs[llc];
        let (slot, evicted) = last.cache.insert(line, dirty, self.classes[class].ways);
        let owner = last.cache.owner(slot);
        last.cache.own(slot, class as u8);
        last.occupancy[class] += 1;
        let Some(evicted) = evicted else { return };
        last.replaced += 1;
        last.occupancy[usize::from(owner)] -= 1;
        if Pages::is_of_nobody(evicted.line) {
            return;
        }
        let mut dirty = evicted.dirty;
        if self.inclusion == Inclusion::Inclusive {
            let above = self.pages.cores(evicted.line) & last.cores;
            for other in each(above) {
                dirty |= self.cores[other].take(evicted.line).unwrap_or(false);
            }
        }
        if dirty {
            self.counters[core].evictions += 1;
            let request = Request {
                line: evicted.line,
                core: core as u8,
                buffer: Request::NOBODY,
                probe: false,
            };
            self.send(request, None, at, 0);
        }
    }
}
