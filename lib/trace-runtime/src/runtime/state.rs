//! What a process knows: the mappings of the files, and the sites. Private memory: a child process has its own copy.
//! Whoever holds the lock of events may use it.

use core::sync::atomic::Ordering::Relaxed;

use crate::layout::{HOT, MOST_REGIONS, MOST_SITES, Site, TABLE, TABLE_SHIFTS, ask, stop};
use crate::runtime::callers::Known;
use crate::runtime::questions::{ask, give_up};
use crate::runtime::ring::block;
use crate::runtime::sys;
use crate::runtime::threads::MANY;

/// A mapping of a recorded file.
#[derive(Clone, Copy)]
pub struct Region {
    pub start: u64,
    pub end: u64,
    /// Of the file, where the mapping begins.
    pub offset: u64,
    pub file: u8,
    /// What the program may do with it.
    pub protection: u8,
}

pub struct State {
    regions: [Region; MOST_REGIONS],
    count: usize,
    sites: [Site; MOST_SITES],
    site_count: usize,
    // By the hash of the address; 0 for none, or the site's place plus one.
    table: [u32; 4 * MOST_SITES],
    /// What the program wants of each signal.
    pub actions: [crate::runtime::sys::Action; 65],
    pub callers: Known,
    /// Whether a handler of the program has been called for a signal.
    pub handled: bool,
}

const NO_SITE: Site = {
    // SAFETY: all of its fields are numbers.
    unsafe { core::mem::zeroed() }
};

struct Cell(core::cell::UnsafeCell<State>);
// SAFETY: used by who holds the lock of events alone.
unsafe impl Sync for Cell {}
static STATE: Cell = Cell(core::cell::UnsafeCell::new(State {
    regions: [Region { start: 0, end: 0, offset: 0, file: 0, protection: 0 }; MOST_REGIONS],
    count: 0,
    sites: [NO_SITE; MOST_SITES],
    site_count: 0,
    table: [0; 4 * MOST_SITES],
    actions: [crate::runtime::sys::Action { handler: 0, flags: 0, restorer: 0, mask: 0 }; 65],
    callers: Known::NOTHING,
    handled: false,
}));

/// The process's. The caller holds the lock.
#[allow(clippy::mut_from_ref)]
pub fn state() -> &'static mut State {
    // SAFETY: the caller holds the lock.
    unsafe { &mut *STATE.0.get() }
}

impl Site {
    // Whether its code is still what it was.
    fn is_there(&self) -> bool {
        let bytes = self.bytes.iter().take(self.length.into()).enumerate();
        // SAFETY: the thread has just executed them.
        self.may_change == 0
            || bytes
                .into_iter()
                .all(|(at, byte)| unsafe { *(self.pc as *const u8).add(at) } == *byte)
    }
}

fn hash(pc: u64) -> usize {
    (pc.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize % (4 * MOST_SITES)
}

impl State {
    /// The mappings.
    pub fn regions(&self) -> &[Region] {
        self.regions.get(..self.count).unwrap_or_default()
    }

    /// The mapping that holds an address.
    pub fn region(&self, address: u64) -> Option<Region> {
        self.regions().iter().find(|one| one.start <= address && address < one.end).copied()
    }

    /// Whether any byte of a range is in a mapping.
    pub fn touches(&self, address: u64, length: u64) -> bool {
        self.regions()
            .iter()
            .any(|one| one.start < address.wrapping_add(length) && address < one.end)
    }

    pub fn add(&mut self, region: Region) {
        let Some(slot) = self.regions.get_mut(self.count) else { give_up(stop::REGIONS, 0, 0) };
        *slot = region;
        self.count += 1;
        let [left, right] = TABLE_SHIFTS;
        let place = |address: u64| (address << left) >> right;
        for at in place(region.start)..=place(region.end - 1) {
            // SAFETY: mapped, and no place is beyond it.
            unsafe { ((TABLE + at) as *mut u8).write(1) };
        }
    }

    /// Takes a range out of the mappings; `each` is told of every part.
    pub fn forget(&mut self, start: u64, end: u64, mut each: impl FnMut(Region)) {
        let mut at = 0;
        while at < self.count {
            let one = self.regions[at];
            if one.end <= start || one.start >= end {
                at += 1;
                continue;
            }
            let (from, to) = (one.start.max(start), one.end.min(end));
            each(Region { start: from, end: to, offset: one.offset + (from - one.start), ..one });
            self.count -= 1;
            self.regions[at] = self.regions[self.count];
            if one.start < from {
                self.add(Region { end: from, ..one });
            }
            if to < one.end {
                self.add(Region { start: to, offset: one.offset + (to - one.start), ..one });
            }
            at = 0;
        }
    }

    // The place in `sites` of what stands at an address.
    fn find(&self, pc: u64) -> Option<usize> {
        let mut at = hash(pc);
        loop {
            let number = (*self.table.get(at)? as usize).checked_sub(1)?;
            let site = self.sites.get(number)?;
            if site.pc == pc || site.inner == pc {
                return Some(number);
            }
            at = (at + 1) % (4 * MOST_SITES);
        }
    }

    /// The site at an address, if it is known.
    pub fn known(&self, pc: u64) -> Option<&'static Site> {
        let site = self.sites.get(self.find(pc)?)?;
        // SAFETY: sites are never moved, and are changed only by who holds the lock.
        Some(unsafe { &*core::ptr::from_ref(site) })
    }

    /// The site at an address.
    pub fn site(&mut self, pc: u64) -> &'static Site {
        if let Some(site) = self.known(pc) {
            if site.is_there() {
                return site;
            }
            ask(ask::SITE, [pc, 0, 0, 0, 0, 0]);
            let number =
                (core::ptr::from_ref(site).addr() - self.sites.as_ptr().addr()) / size_of::<Site>();
            self.sites[number] = block().mailbox.site;
            return site;
        }
        ask(ask::SITE, [pc, 0, 0, 0, 0, 0]);
        self.add_site(block().mailbox.site)
    }

    fn index(&mut self, pc: u64, number: u32) {
        let mut at = hash(pc);
        while self.table[at] != 0 {
            at = (at + 1) % (4 * MOST_SITES);
        }
        self.table[at] = number;
    }

    /// Forgets the sites of a range, whose code is gone.
    pub fn forget_sites(&mut self, start: u64, end: u64) {
        for site in self.sites.iter_mut().take(self.site_count) {
            if (start..end).contains(&site.pc) {
                (site.pc, site.inner) = (u64::MAX, u64::MAX);
            }
        }
    }

    /// Counts that a site has failed once more. Where that is often, its instruction is replaced by a jump.
    pub fn failed(&mut self, pc: u64) -> &'static Site {
        self.site(pc);
        if let Some(number) = self.find(pc)
            && let Some(site) = self.sites.get_mut(number)
        {
            site.hits = site.hits.saturating_add(1);
            // One that was replaced in the beginning was not expected to access the files.
            if site.hits == HOT && site.patched != 2 {
                self.replace(number);
            }
        }
        self.site(pc)
    }

    fn replace(&mut self, number: usize) {
        let Site { pc, id, .. } = self.sites[number];
        let is_shared = MANY.load(Relaxed) || self.handled;
        let [answer, ..] = ask(ask::HOT, [pc, is_shared.into(), id.into(), 0, 0, 0]);
        if answer == 0 {
            return;
        }
        let new = block().mailbox.site;
        if answer == 2 {
            sys::synchronize();
            ask(ask::HOT_TAIL, [pc, 0, 0, 0, 0, 0]);
            sys::synchronize();
            ask(ask::HOT_HEAD, [pc, 0, 0, 0, 0, 0]);
        }
        self.sites[number] = new;
        if new.inner != 0 {
            self.index(new.inner, number as u32 + 1);
        }
    }

    /// Keeps a site.
    pub fn add_site(&mut self, site: Site) -> &'static Site {
        if self.site_count >= MOST_SITES - 1 {
            give_up(stop::SITES, 0, 0);
        }
        self.sites[self.site_count] = site;
        self.site_count += 1;
        self.index(site.pc, self.site_count as u32);
        if site.inner != 0 {
            self.index(site.inner, self.site_count as u32);
        }
        // SAFETY: sites are never moved, and are changed only by who holds the lock.
        unsafe { &*core::ptr::from_ref(&self.sites[self.site_count - 1]) }
    }
}
