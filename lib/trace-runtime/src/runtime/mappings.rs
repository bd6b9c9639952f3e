//! Mappings of the files: the program's has no rights (or none to store), and its alias has them in
//! its place.

use core::sync::atomic::Ordering::{Relaxed, Release};
use core::sync::atomic::{AtomicU64, AtomicUsize};

use super::addresses::alias;
use super::blocks::{block, shared};
use super::lock::Held;
use super::questions::{ask, give_up};
use super::ring::push_data;
use super::state::Region;
use super::{descriptors, filter, sys};
use crate::layout::{Head, MOST_STUB, PASSED, SHARED, Site, WINDOW, WINDOW_END, ask, kind, stop};

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
    let stub = pc - (pc - start) % MOST_STUB;
    // SAFETY: memory for stubs consists of nothing else, and is never unmapped. The recorder has
    // begun each stub with the address of its instruction.
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

/// Code was mapped: what has to be seen in it is replaced before it runs.
pub fn code(held: &mut Held, start: u64, length: u64) {
    shared().remapped.fetch_add(1, Release);
    held.forget_sites(start, start + length);
    held.callers.forget();
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
                // SAFETY: the recorder has put as many there for this question, and asking needs
                // the lock.
                let site = unsafe { ((SHARED + PASSED) as *const Site).add(number).read() };
                held.add_site(site);
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

fn event(held: &Held, kind: u8, region: &Region) {
    let size = region.end - region.start;
    let head = Head { file: region.file, size, offset: region.offset, ..Head::of(kind, 0) };
    // SAFETY: such an event has 8 bytes of data, which are the address.
    unsafe { push_data(held, block(), &head, (&raw const region.start).cast()) };
}

// Takes a range out of what is recorded, with its aliases.
fn forget(held: &mut Held, start: u64, end: u64) {
    while let Some(gone) = held.take(start, end) {
        event(held, kind::UNMAP, &gone);
        // SAFETY: aliases are used by what knows of their mappings alone, with the lock.
        unsafe { sys::unmap(alias(gone.start), gone.end - gone.start) };
    }
}

// Where a filter looks for pointers already.
const MOST_FILTERED: usize = 128;
static FILTERED: [[AtomicU64; 2]; MOST_FILTERED] =
    [const { [const { AtomicU64::new(0) }; 2] }; MOST_FILTERED];

// Has what points to a mapping come to us.
fn filter(_held: &Held, start: u64, end: u64) {
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

// Moves a new mapping to a place of ours, where one filter is there for all, if there is such a
// place.
fn move_to_window(held: &Held, at: u64, length: u64) -> u64 {
    // Large pages want addresses that are multiples of their size.
    let align = if length >= 1 << 30 { 1 << 30 } else { 1 << 21 };
    let mut to = WINDOW;
    while let Some(taken) =
        held.regions().iter().find(|one| to < one.end && one.start < to + length)
    {
        to = taken.end.next_multiple_of(align);
    }
    let end = to.saturating_add(length);
    // Nothing of anything else's may be there, nor at the alias.
    for place in [to, alias(to)] {
        let reserved = sys::private_memory(place, length, 0);
        if end > WINDOW_END || reserved != place {
            if reserved == place {
                // SAFETY: reserved just now, for nothing yet.
                unsafe { sys::unmap(place, length) };
            }
            if place != to {
                // SAFETY: reserved by the turn before, for nothing yet.
                unsafe { sys::unmap(to, length) };
            }
            return at;
        }
    }
    let flags = sys::MREMAP_MAYMOVE | sys::MREMAP_FIXED;
    // SAFETY: both places were reserved above, for nothing yet. What is moved there was mapped for
    // a call of the program that has not returned, and so nothing knows of it.
    unsafe {
        sys::unmap(alias(to), length);
        if sys::call(sys::MREMAP, [at, length, length, flags, to, 0]) == to {
            return to;
        }
        sys::unmap(to, length);
    }
    at
}

/// A call that changes mappings.
///
/// # Safety
/// The program has made it, with these arguments.
pub unsafe fn change(number: u64, a: [u64; 6]) -> u64 {
    // SAFETY: the caller's, for each of them.
    unsafe {
        match number {
            sys::MMAP => map(a),
            sys::MUNMAP => unmap(a),
            sys::MREMAP => remap(a),
            _ => protect(number, a),
        }
    }
}

/// `mmap`.
///
/// # Safety
/// As for [`change`].
unsafe fn map(a: [u64; 6]) -> u64 {
    let mut held = Held::acquire();
    // SAFETY: the program's own call: the caller answers for that.
    let result = unsafe { sys::call(sys::MMAP, a) };
    if sys::is_error(result) {
        return result;
    }
    mapped(&mut held, a, result)
}

// What a new mapping of the program's is: a file that is recorded, or code. Returns where it is
// now.
fn mapped(held: &mut Held, a: [u64; 6], at: u64) -> u64 {
    let [hint, length, protection, flags, descriptor, offset] = a;
    let mut result = at;
    let end = result + pages(length);
    if flags & sys::MAP_FIXED != 0 {
        forget(held, result, end);
    }
    let is_file = flags & sys::MAP_ANONYMOUS == 0;
    let kind = flags & sys::MAP_TYPE;
    if is_file && matches!(kind, sys::MAP_SHARED | sys::MAP_SHARED_VALIDATE) {
        let [file, ..] = ask(ask::FILE, [descriptor, result, length, offset, 0, 0]);
        if file != 0 {
            let anywhere = sys::MAP_FIXED | sys::MAP_FIXED_NOREPLACE | sys::MAP_32BIT;
            if hint == 0 && flags & anywhere == 0 {
                result = move_to_window(held, result, end - result);
            }
            let region = Region {
                start: result,
                end: result + pages(length),
                offset,
                file: (file - 1) as u8,
                protection: protection as u8,
            };
            record(held, region, descriptor, flags);
        }
    }
    if is_file && protection & sys::PROT_EXEC != 0 {
        code(held, result, length);
    }
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

// Begins to record a mapping that the program has just made.
fn record(held: &mut Held, region: Region, descriptor: u64, flags: u64) {
    let (at, length) = (alias(region.start), region.end - region.start);
    let kind = flags & !(sys::MAP_FIXED) | sys::MAP_FIXED_NOREPLACE;
    // Pages of other sizes are the file's own, with the same flags.
    let protection = u64::from(region.protection);
    // SAFETY: the kernel maps it where nothing else is.
    let made =
        unsafe { sys::call(sys::MMAP, [at, length, protection, kind, descriptor, region.offset]) };
    if made != at {
        give_up(stop::ALIAS_TAKEN, region.start, made);
    }
    protect_mapping(region.start, length, protection);
    held.add(region);
    filter(held, region.start, region.end);
    begin(region.file);
    event(held, kind::MAP, &region);
}

// Gives the program's mapping of a recorded file what rights it has while it is recorded.
fn protect_mapping(start: u64, length: u64, protection: u64) {
    let rights = reduced(protection, shared().loads != 0);
    // SAFETY: the program's own mapping, which our code never accesses: it has the alias.
    unsafe { sys::call3(sys::MPROTECT, start, length, rights) };
}

/// `munmap`.
///
/// # Safety
/// As for [`change`].
unsafe fn unmap(a: [u64; 6]) -> u64 {
    let mut held = Held::acquire();
    // SAFETY: the program's own call: the caller answers for that.
    let result = unsafe { sys::call(sys::MUNMAP, a) };
    if !sys::is_error(result) {
        forget(&mut held, a[0], a[0] + pages(a[1]));
    }
    result
}

/// `mprotect` and `pkey_mprotect`.
///
/// # Safety
/// As for [`change`].
unsafe fn protect(number: u64, a: [u64; 6]) -> u64 {
    let [start, length, protection, ..] = a;
    let end = start.saturating_add(pages(length));
    let mut held = Held::acquire();
    // SAFETY: the program's own call: the caller answers for that.
    let result = unsafe { sys::call(number, a) };
    if sys::is_error(result) {
        return result;
    }
    let mut parts = [None; 16];
    let mut count = 0;
    while let Some(part) = held.take(start, end) {
        let Some(slot) = parts.get_mut(count) else { give_up(stop::REGIONS, 0, 0) };
        *slot = Some(Region { protection: protection as u8, ..part });
        count += 1;
    }
    for part in parts.into_iter().flatten() {
        let length = part.end - part.start;
        // SAFETY: the alias of what the program has changed. It is accessed for the program alone.
        unsafe { sys::call3(sys::MPROTECT, alias(part.start), length, protection) };
        protect_mapping(part.start, length, protection);
        held.add(part);
    }
    result
}

/// `mremap`.
///
/// # Safety
/// As for [`change`].
unsafe fn remap(a: [u64; 6]) -> u64 {
    let [old, old_length, new_length, flags, ..] = a;
    let mut held = Held::acquire();
    let region = held.region(old);
    const DONT_UNMAP: u64 = 4;
    if region.is_some() && flags & DONT_UNMAP != 0 {
        give_up(stop::CALL, sys::MREMAP, flags);
    }
    // SAFETY: the program's own call: the caller answers for that.
    let result = unsafe { sys::call(sys::MREMAP, a) };
    if sys::is_error(result) {
        return result;
    }
    if let Some(region) = region {
        move_alias(&mut held, region, [old, pages(old_length)], [result, pages(new_length)]);
    } else if flags & sys::MREMAP_FIXED != 0 {
        forget(&mut held, result, result + pages(new_length));
    }
    result
}

// A mapping of a file was moved, or has another length.
fn move_alias(held: &mut Held, region: Region, [old, was]: [u64; 2], [new, is]: [u64; 2]) {
    // The alias goes where the alias of the new place is. It stays what it is where that is the old
    // place.
    let (from, to) = (alias(old), alias(new));
    let flags = if to == from { 0 } else { sys::MREMAP_MAYMOVE | sys::MREMAP_FIXED };
    // SAFETY: the alias is used with the lock alone, by what knows where the mapping is. Nothing of
    // ours is where it goes.
    let moved = unsafe { sys::call(sys::MREMAP, [from, was, is, flags, to, 0]) };
    if moved != to {
        give_up(stop::ALIAS_TAKEN, new, moved);
    }
    let offset = region.offset + (old - region.start);
    while let Some(gone) = held.take(old, old + was) {
        event(held, kind::UNMAP, &gone);
    }
    let region = Region { start: new, end: new + is, offset, ..region };
    held.add(region);
    event(held, kind::MAP, &region);
    filter(held, region.start, region.end);
}
