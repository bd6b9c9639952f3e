//! Lines that make room for others.

use super::state::{Hierarchy, each};
use crate::cache::ALL_WAYS;
use crate::event::Request;
use crate::machine::Inclusion;

impl Hierarchy {
    /// Puts a line into a core's second level. What it replaces leaves the first level too.
    pub(super) fn fill_second(&mut self, core: usize, class: usize, line: u32, dirty: bool, at: u64) {
        let private = &mut self.cores[core];
        let (_, evicted) = private.l2.insert(line, dirty, ALL_WAYS);
        let Some(evicted) = evicted else { return };
        let mut dirty = evicted.dirty;
        if let Some(slot) = private.l1.find(evicted.line) {
            dirty |= private.l1.remove(slot);
        }
        let llc = private.place.llc;
        let last = &mut self.llcs[llc];
        if self.inclusion != Inclusion::Victim && !dirty {
            return;
        }
        match last.cache.find(evicted.line) {
            Some(slot) => {
                if dirty {
                    last.cache.dirty(slot);
                }
                last.cache.touch(slot);
            }
            None => self.fill_last(core, class, evicted.line, dirty, at),
        }
    }

    /// Puts a line that is not there into a core's last-level cache. What it replaces leaves, if that must contain what
    /// the levels above contain, these too; what of it is dirty goes to memory.
    pub(super) fn fill_last(&mut self, core: usize, class: usize, line: u32, dirty: bool, at: u64) {
        let llc = self.cores[core].place.llc;
        let last = &mut self.llcs[llc];
        let (slot, evicted) = last.cache.insert(line, dirty, self.classes[class].ways);
        let owner = std::mem::replace(&mut last.owners[slot as usize], class as u8);
        last.occupancy[class] += 1;
        let Some(evicted) = evicted else { return };
        last.occupancy[usize::from(owner)] -= 1;
        let mut dirty = evicted.dirty;
        if self.inclusion == Inclusion::Inclusive {
            let above = self.pages.cores(evicted.line) & last.cores;
            for other in each(above) {
                dirty |= self.cores[other].take(evicted.line).unwrap_or(false);
            }
        }
        if dirty {
            self.counters[core].evictions += 1;
            let request =
                Request { line: evicted.line, core: core as u8, buffer: Request::NOBODY, probe: false };
            self.send(request, None, at, 0);
        }
    }
}
