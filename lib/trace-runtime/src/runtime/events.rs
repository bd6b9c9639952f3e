//! What an instruction did to the files, as events.

use super::addresses::alias;
use super::blocks::shared;
use super::lock::Held;
use super::questions::give_up;
use super::ring::{push, push_data};
use super::state::Region;
use crate::layout::{Block, Head, Site, kind, stop, what};

/// The kind of event for a store by a site.
const fn store_kind(site: &Site) -> u8 {
    match site.what {
        what::NON_TEMPORAL => kind::NON_TEMPORAL,
        what::LOCKED => kind::LOCKED,
        _ => kind::STORE,
    }
}

/// Records that `size` bytes at a program's address were accessed, with what is there now where
/// they were stored. What lies outside of the files is left out.
pub fn record(held: &Held, block: &Block, kind: u8, site: &Site, start: u64, size: u64) {
    let (mut at, end) = (start, start + size);
    while at < end {
        let Some(region) = held.region(at) else { return };
        let part = region.end.min(end) - at;
        let offset = region.offset + (at - region.start);
        let head = Head { file: region.file, size: part, offset, ..Head::of(kind, site.id) };
        // SAFETY: the part lies in one mapping, whose alias is mapped for as long as the mapping is
        // known. Its bytes could be accessed just now.
        unsafe { push_data(held, block, &head, alias(at) as *const u8) };
        at += part;
        if kind != kind::LOAD {
            block.pending.set(1);
        }
    }
}

/// Records a store.
pub fn record_store(held: &Held, block: &Block, site: &Site, start: u64, size: u64) {
    record(held, block, store_kind(site), site, start, size);
}

/// Records a load, where they are asked for.
pub fn record_load(held: &Held, block: &Block, site: &Site, start: u64, size: u64) {
    if shared().loads != 0 {
        record(held, block, kind::LOAD, site, start, size);
    }
}

/// Records a flush of a line of a file.
pub fn flush(held: &Held, block: &Block, site: &Site, address: u64) {
    if let Some(region) = held.region(address) {
        let kind = kind::CLFLUSH + (site.what - what::CLFLUSH);
        let offset = region.offset + (address - region.start);
        push(held, block, &Head { file: region.file, offset, ..Head::of(kind, site.id) });
        block.pending.set(1);
    }
}

/// Records a fence.
pub fn fence(held: &Held, block: &Block, site: &Site) {
    push(held, block, &Head::of(kind::SFENCE + (site.what - what::SFENCE), site.id));
    block.pending.set(0);
}

/// Records a locked instruction that stores nothing in a file.
pub fn locked(held: &Held, block: &Block, site: &Site) {
    push(held, block, &Head::of(kind::LOCKED_ONLY, site.id));
    block.pending.set(0);
}

/// Whether an access is one to a file. One that is so in part cannot be executed.
pub fn is_recorded(held: &Held, site: &Site, start: u64, size: u64) -> bool {
    let end = start.wrapping_add(size);
    let partly = match held.region(start) {
        Some(region) if end <= region.end || continues(held, region, end) => return true,
        Some(_) => true,
        None => size > 0 && held.touches(start, size),
    };
    // A line is flushed as a whole, and a prefetch fails nowhere.
    if partly && site.reads | site.writes != 0 {
        give_up(stop::PARTLY, site.pc, start);
    }
    false
}

/// Whether another mapping goes on where one ends, up to `end`.
pub fn continues(held: &Held, region: Region, end: u64) -> bool {
    held.region(region.end).is_some_and(|next| end <= next.end)
}
