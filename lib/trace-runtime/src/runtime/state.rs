//! What a process knows: the mappings of the files, and the sites. Private memory: a child process
//! has its own copy. It is used by way of [`super::lock::Held`] alone.

use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;

use super::blocks::block;
use super::questions::{ask, give_up};
use super::sys::{self, Action};
use super::unwinding::Known;
use crate::layout::{HOT, MOST_REGIONS, MOST_SITES, Site, TABLE, TABLE_SHIFTS, ask, stop};

/// Whether the process has ever had more than one thread.
pub static HAS_HAD_THREADS: AtomicBool = AtomicBool::new(false);

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

/// What a process knows.
pub struct State {
    regions: [Region; MOST_REGIONS],
    count: usize,
    sites: [Site; MOST_SITES],
    site_count: usize,
    // By the hash of the address; 0 for none, or the site's place plus one.
    table: [u32; 4 * MOST_SITES],
    /// What the program wants of each signal.
    pub actions: [Action; 65],
    pub callers: Known,
    /// Whether a handler of the program has been called for a signal.
    pub handled: bool,
}

const NO_SITE: Site = {
    // SAFETY: all of its fields are numbers, for which zero is a value.
    unsafe { core::mem::zeroed() }
};

// Whether a site's code is still what it was.
fn is_there(site: &Site) -> bool {
    let mut bytes = site.bytes.iter().take(site.length.into()).enumerate();
    // SAFETY: these bytes can be read, as the thread has just executed them.
    let byte_at = |at: usize| unsafe { *(site.pc as *const u8).add(at) };
    site.may_change == 0 || bytes.all(|(at, byte)| byte_at(at) == *byte)
}

fn hash(pc: u64) -> usize {
    (pc.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize % (4 * MOST_SITES)
}

impl State {
    /// Of a process that has just begun.
    pub const NEW: Self = Self {
        regions: [Region { start: 0, end: 0, offset: 0, file: 0, protection: 0 }; MOST_REGIONS],
        count: 0,
        sites: [NO_SITE; MOST_SITES],
        site_count: 0,
        table: [0; 4 * MOST_SITES],
        actions: [Action::DEFAULT; 65],
        callers: Known::NOTHING,
        handled: false,
    };

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

    /// Keeps a mapping.
    pub fn add(&mut self, region: Region) {
        let Some(slot) = self.regions.get_mut(self.count) else { give_up(stop::REGIONS, 0, 0) };
        *slot = region;
        self.count += 1;
        let [left, right] = TABLE_SHIFTS;
        let place = |address: u64| (address << left) >> right;
        for at in place(region.start)..=place(region.end - 1) {
            // SAFETY: the shifts leave no place beyond the table, which is mapped before anything
            // is recorded. Stubs read it, and only this writes to it.
            unsafe { ((TABLE + at) as *mut u8).write(1) };
        }
    }

    /// Takes a part of a range out of the mappings, and returns it: to be repeated until there is
    /// none.
    pub fn take(&mut self, start: u64, end: u64) -> Option<Region> {
        let at = self.regions().iter().position(|one| one.end > start && one.start < end)?;
        let one = self.regions[at];
        let (from, to) = (one.start.max(start), one.end.min(end));
        self.count -= 1;
        self.regions[at] = self.regions[self.count];
        if one.start < from {
            self.add(Region { end: from, ..one });
        }
        if to < one.end {
            self.add(Region { start: to, offset: one.offset + (to - one.start), ..one });
        }
        Some(Region { start: from, end: to, offset: one.offset + (from - one.start), ..one })
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
    pub fn known(&self, pc: u64) -> Option<Site> {
        self.sites.get(self.find(pc)?).copied()
    }

    /// The site at an address.
    pub fn site(&mut self, pc: u64) -> Site {
        let number = self.find(pc);
        if let Some(site) = number.and_then(|number| self.sites.get(number))
            && is_there(site)
        {
            return *site;
        }
        ask(ask::SITE, [pc, 0, 0, 0, 0, 0]);
        let site = block().mailbox.site.get();
        match number {
            Some(number) => self.sites[number] = site,
            None => self.add_site(site),
        }
        site
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

    /// Counts that a site has failed once more. Where that is often, its instruction is replaced by
    /// a jump.
    pub fn failed(&mut self, pc: u64) -> Site {
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
        let is_shared = HAS_HAD_THREADS.load(Relaxed) || self.handled;
        let [answer, ..] = ask(ask::HOT, [pc, is_shared.into(), id.into(), 0, 0, 0]);
        if answer == 0 {
            return;
        }
        let new = block().mailbox.site.get();
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
    pub fn add_site(&mut self, site: Site) {
        if self.site_count >= MOST_SITES - 1 {
            give_up(stop::SITES, 0, 0);
        }
        self.sites[self.site_count] = site;
        self.site_count += 1;
        self.index(site.pc, self.site_count as u32);
        if site.inner != 0 {
            self.index(site.inner, self.site_count as u32);
        }
    }
}
