//! Mappings of the files: the program's has no rights (or none to store), and its alias has them in its place.

use core::sync::atomic::Ordering::{Relaxed, Release};
use core::sync::atomic::{AtomicU64, AtomicUsize};

use crate::layout::{Head, PASSED, SHARED, Site, WINDOW, WINDOW_END, ask, kind, stop};
use crate::runtime::questions::{ask, give_up};
use crate::runtime::ring::{block, lock, push, shared, unlock};
use crate::runtime::state::{Region, state};
use crate::runtime::stubs::alias;
use crate::runtime::{descriptors, filter, sys};

const PAGE: u64 = 4096;

/// The length of the pages that a length takes.
pub const fn pages(length: u64) -> u64 {
    length.saturating_add(PAGE - 1) & !(PAGE - 1)
}

// Memory for stubs: start and end.
const MOST: usize = 512;
static STUBS: [[AtomicU64; 2]; MOST] = [const { [const { AtomicU64::new(0) }; 2] }; MOST];
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Whether there are stubs at an address.
pub fn is_stub(pc: u64) -> bool {
    STUBS
        .iter()
        .take(COUNT.load(Relaxed))
        .any(|[start, end]| (start.load(Relaxed)..end.load(Relaxed)).contains(&pc))
}

/// The instruction that the stub at an address stands for: the first thing in it.
pub fn instruction_of(pc: u64) -> Option<u64> {
    let mut all = STUBS.iter().take(COUNT.load(Relaxed));
    let [start, _] =
        all.find(|[start, end]| (start.load(Relaxed)..end.load(Relaxed)).contains(&pc))?;
    let start = start.load(Relaxed);
    let stub = pc - (pc - start) % crate::layout::MOST_STUB;
    // SAFETY: memory for stubs consists of nothing else, and can be read.
    Some(unsafe { *(stub as *const u64) })
}

/// Maps memory for stubs.
pub fn map_stubs(at: u64, length: u64) -> bool {
    if sys::private_memory(at, length, sys::PROT_READ | sys::PROT_EXEC) != at {
        return false;
    }
    shared().remapped.fetch_add(1, Release);
    let Some([start, end]) = STUBS.get(COUNT.load(Relaxed)) else { return false };
    start.store(at, Relaxed);
    end.store(at + length, Relaxed);
    COUNT.fetch_add(1, Relaxed);
    true
}

/// Code was mapped: what has to be seen in it is replaced before it runs. The caller holds the lock.
pub fn code(start: u64, length: u64) {
    shared().remapped.fetch_add(1, Release);
    state().forget_sites(start, start + length);
    state().callers.forget();
    for _ in 0..8 {
        let [at, size, ..] = ask(ask::CODE, [start, length, 0, 0, 0, 0]);
        if size == 0 {
            return;
        }
        if !map_stubs(at, size) {
            // Something else is there by now.
            continue;
        }
        let [count, ..] = ask(ask::PATCH, [start, length, at, size, 0, 0]);
        let mut passed = 0;
        while passed < count {
            let [some, ..] = ask(ask::PATCHED, [passed, 0, 0, 0, 0, 0]);
            for number in 0..some as usize {
                // SAFETY: the recorder has put as many there.
                let site = unsafe { ((SHARED + PASSED) as *const Site).add(number).read() };
                state().add_site(site);
            }
            passed += some.max(1);
        }
        return;
    }
}

// What the program's mapping may do while its alias does the rest.
const fn reduced(protection: u64, loads: bool) -> u64 {
    if loads { 0 } else { protection & !sys::PROT_WRITE }
}

fn event(kind: u8, region: &Region) {
    let size = region.end - region.start;
    let head = Head { file: region.file, size, offset: region.offset, ..Head::of(kind, 0) };
    push(block(), &head, (&raw const region.start).cast());
}

// Takes a range out of what is recorded, with its aliases.
fn forget(start: u64, end: u64) {
    state().forget(start, end, |gone| {
        event(kind::UNMAP, &gone);
        sys::call2(sys::MUNMAP, alias(gone.start), gone.end - gone.start);
    });
}

// Where a filter looks for pointers already.
const MOST_FILTERED: usize = 128;
static FILTERED: [[AtomicU64; 2]; MOST_FILTERED] =
    [const { [const { AtomicU64::new(0) }; 2] }; MOST_FILTERED];

// Has what points to a mapping come to us. The caller holds the lock.
fn filter(start: u64, end: u64) {
    let is_in = |from: u64, to: u64| from <= start && end <= to;
    let mut free = None;
    for one in &FILTERED {
        let [from, to] = [one[0].load(Relaxed), one[1].load(Relaxed)];
        if is_in(from, to) {
            return;
        }
        if to == 0 {
            free = Some(one);
            break;
        }
    }
    let (from, to) = if is_in(WINDOW, WINDOW_END) { (WINDOW, WINDOW_END) } else { (start, end) };
    if sys::is_error(filter::install_for(from, to)) {
        give_up(stop::SETUP, 1, 0);
    }
    if let Some(free) = free {
        free[0].store(from, Relaxed);
        free[1].store(to, Relaxed);
    }
}

// Moves a new mapping to a place of ours, where one filter is there for all, if there is such a place.
fn move_to_window(at: u64, length: u64) -> u64 {
    // Large pages want addresses that are multiples of their size.
    let align = if length >= 1 << 30 { 1 << 30 } else { 1 << 21 };
    let mut to = WINDOW;
    while let Some(taken) =
        state().regions().iter().find(|one| to < one.end && one.start < to + length)
    {
        to = taken.end.next_multiple_of(align);
    }
    let end = to.saturating_add(length);
    // Nothing of anybody else's may be there, nor at the alias.
    for place in [to, alias(to)] {
        let reserved = sys::private_memory(place, length, 0);
        if end > WINDOW_END || reserved != place {
            if reserved == place {
                sys::call2(sys::MUNMAP, place, length);
            }
            if place != to {
                sys::call2(sys::MUNMAP, to, length);
            }
            return at;
        }
    }
    sys::call2(sys::MUNMAP, alias(to), length);
    let flags = sys::MREMAP_MAYMOVE | sys::MREMAP_FIXED;
    let moved = sys::call(sys::MREMAP, [at, length, length, flags, to, 0]);
    if moved == to {
        return to;
    }
    sys::call2(sys::MUNMAP, to, length);
    at
}

/// A call that changes mappings.
pub fn change(number: u64, a: [u64; 6]) -> u64 {
    match number {
        sys::MMAP => map(a),
        sys::MUNMAP => unmap(a),
        sys::MREMAP => remap(a),
        _ => protect(number, a),
    }
}

// `mmap`.
fn map(a: [u64; 6]) -> u64 {
    let [hint, length, protection, flags, descriptor, offset] = a;
    let block = block();
    lock(block);
    let mut result = sys::call(sys::MMAP, a);
    if !sys::is_error(result) {
        let end = result + pages(length);
        if flags & sys::MAP_FIXED != 0 {
            forget(result, end);
        }
        let is_file = flags & sys::MAP_ANONYMOUS == 0;
        if is_file && matches!(flags & sys::MAP_TYPE, sys::MAP_SHARED | sys::MAP_SHARED_VALIDATE) {
            let [file, ..] = ask(ask::FILE, [descriptor, result, length, offset, 0, 0]);
            if file != 0 {
                let anywhere = sys::MAP_FIXED | sys::MAP_FIXED_NOREPLACE | sys::MAP_32BIT;
                if hint == 0 && flags & anywhere == 0 {
                    result = move_to_window(result, end - result);
                }
                let region = Region {
                    start: result,
                    end: result + pages(length),
                    offset,
                    file: (file - 1) as u8,
                    protection: protection as u8,
                };
                record(region, descriptor, flags);
            }
        }
        if is_file && protection & sys::PROT_EXEC != 0 {
            code(result, length);
        }
    }
    unlock();
    result
}

// The first mapping of a file in this process.
fn begin(file: u8) {
    static BEGUN: [AtomicU64; 4] = [const { AtomicU64::new(0) }; 4];
    let bit = 1 << (file % 64);
    let before = BEGUN.iter().fold(0, |all, word| all | word.load(Relaxed));
    let Some(word) = BEGUN.get(usize::from(file / 64)) else { return };
    if word.fetch_or(bit, Relaxed) & bit != 0 {
        return;
    }
    if before == 0 && sys::is_error(filter::install_for_lists()) {
        give_up(stop::SETUP, 8, 0);
    }
    descriptors::begin();
}

fn record(region: Region, descriptor: u64, flags: u64) {
    let (at, length) = (alias(region.start), region.end - region.start);
    let kind = flags & !(sys::MAP_FIXED) | sys::MAP_FIXED_NOREPLACE;
    // Pages of other sizes are the file's own, with the same flags.
    let protection = u64::from(region.protection);
    let made = sys::call(sys::MMAP, [at, length, protection, kind, descriptor, region.offset]);
    if made != at {
        give_up(stop::ALIAS_TAKEN, region.start, made);
    }
    sys::call3(sys::MPROTECT, region.start, length, reduced(protection, shared().loads != 0));
    state().add(region);
    filter(region.start, region.end);
    begin(region.file);
    event(kind::MAP, &region);
}

// `munmap`.
fn unmap(a: [u64; 6]) -> u64 {
    lock(block());
    let result = sys::call(sys::MUNMAP, a);
    if !sys::is_error(result) {
        forget(a[0], a[0] + pages(a[1]));
    }
    unlock();
    result
}

// `mprotect` and `pkey_mprotect`.
fn protect(number: u64, a: [u64; 6]) -> u64 {
    let [start, length, protection, ..] = a;
    let end = start.saturating_add(pages(length));
    lock(block());
    let result = sys::call(number, a);
    if !sys::is_error(result) {
        let mut parts = [None; 16];
        let mut count = 0;
        state().forget(start, end, |part| {
            let Some(slot) = parts.get_mut(count) else { give_up(stop::REGIONS, 0, 0) };
            *slot = Some(Region { protection: protection as u8, ..part });
            count += 1;
        });
        for part in parts.into_iter().flatten() {
            let length = part.end - part.start;
            sys::call3(sys::MPROTECT, alias(part.start), length, protection);
            sys::call3(sys::MPROTECT, part.start, length, reduced(protection, shared().loads != 0));
            state().add(part);
        }
    }
    unlock();
    result
}

// `mremap`.
fn remap(a: [u64; 6]) -> u64 {
    let [old, old_length, new_length, flags, ..] = a;
    lock(block());
    let region = state().region(old);
    const DONT_UNMAP: u64 = 4;
    if region.is_some() && flags & DONT_UNMAP != 0 {
        give_up(stop::CALL, sys::MREMAP, flags);
    }
    let result = sys::call(sys::MREMAP, a);
    if !sys::is_error(result) {
        if let Some(region) = region {
            let (was, is) = (pages(old_length), pages(new_length));
            // The alias goes where the alias of the new place is. It stays what it is where that is the old place.
            let to = alias(result);
            let moved = if to == alias(old) {
                sys::call(sys::MREMAP, [to, was, is, 0, 0, 0])
            } else {
                let flags = sys::MREMAP_MAYMOVE | sys::MREMAP_FIXED;
                sys::call(sys::MREMAP, [alias(old), was, is, flags, to, 0])
            };
            if moved != to {
                give_up(stop::ALIAS_TAKEN, result, moved);
            }
            let offset = region.offset + (old - region.start);
            state().forget(old, old + was, |gone| event(kind::UNMAP, &gone));
            let new = Region { start: result, end: result + is, offset, ..region };
            state().add(new);
            event(kind::MAP, &new);
            filter(new.start, new.end);
        } else if flags & sys::MREMAP_FIXED != 0 {
            forget(result, result + pages(new_length));
        }
    }
    unlock();
    result
}
