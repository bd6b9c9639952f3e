//! Gathers, scatters and masked accesses: which elements are accessed stands in vector and mask registers, which the
//! kernel saves in a signal's frame (the layout of XSAVE: Intel SDM volume 1, section 13.4; the parts' places are
//! those that CPUID names).

use crate::layout::{Block, Site, how, kind};
use crate::runtime::ring::shared;
use crate::runtime::stubs::{
    Registers, address, alias, is_recorded, record, record_load, record_store, segment_base,
};

// Where the pointer to the saved state stands behind the registers.
const SAVED: usize = 23;
const IN_USE: usize = 512;

const PAGE: u64 = 4096;

/// The saved state of a signal's frame.
struct Saved(*mut u8);

impl Saved {
    fn of(registers: &Registers) -> Self {
        Self(registers.get(SAVED) as *mut u8)
    }

    fn part(&self, number: usize) -> *mut u8 {
        let offset = shared().state_offsets.get(number).copied().unwrap_or_default();
        self.0.wrapping_add(offset as usize)
    }

    // A byte of an MMX register.
    fn small(&self, number: u8, at: usize) -> u64 {
        // SAFETY: the kernel's frame.
        unsafe { self.0.add(32 + 16 * number as usize + at).read().into() }
    }

    // Where 16, 32 or 64 bytes of a vector go on from byte `at`, and which part of the state that is.
    fn vector(&self, number: u8, at: usize) -> (*mut u8, u32) {
        let number = number as usize;
        if number >= 16 {
            return (self.part(7).wrapping_add(64 * (number - 16) + at), 7);
        }
        match at {
            0..16 => (self.0.wrapping_add(160 + 16 * number + at), 1),
            16..32 => (self.part(2).wrapping_add(16 * number + at - 16), 2),
            _ => (self.part(6).wrapping_add(32 * number + at - 32), 6),
        }
    }

    fn in_use(&self) -> u64 {
        // SAFETY: the kernel's frame.
        unsafe { self.0.add(IN_USE).cast::<u64>().read() }
    }

    fn element(&self, number: u8, at: usize, size: usize) -> u64 {
        let (place, part) = self.vector(number, at);
        if self.in_use() >> part & 1 == 0 {
            return 0;
        }
        let mut value = 0u64;
        // SAFETY: the kernel's frame.
        unsafe { core::ptr::copy_nonoverlapping(place, (&raw mut value).cast(), size) };
        value
    }

    fn set(&self, number: u8, at: usize, size: usize, value: u64) {
        let (place, part) = self.vector(number, at);
        let is_absent = part > 1 && shared().state_offsets[part as usize] == 0;
        if is_absent || value == 0 && self.in_use() >> part & 1 == 0 {
            return;
        }
        // SAFETY: the kernel's frame.
        unsafe {
            core::ptr::copy_nonoverlapping((&raw const value).cast(), place, size);
            self.0.add(IN_USE).cast::<u64>().write(self.in_use() | 1 << part);
        }
    }

    fn mask(&self, number: u8) -> u64 {
        if self.in_use() >> 5 & 1 == 0 {
            return 0;
        }
        // SAFETY: the kernel's frame.
        unsafe { self.part(5).add(8 * number as usize).cast::<u64>().read() }
    }

    fn set_mask(&self, number: u8, value: u64) {
        // SAFETY: the kernel's frame.
        unsafe { self.part(5).add(8 * number as usize).cast::<u64>().write(value) };
    }
}

/// Which elements the instruction accesses.
pub fn mask(site: &Site, registers: &Registers) -> u64 {
    let (saved, count) = (Saved::of(registers), u32::from(site.elements));
    let all = if count >= 64 { u64::MAX } else { (1 << count) - 1 };
    if site.mask_is_vector == 0 {
        return if site.mask == 0 { all } else { saved.mask(site.mask) & all };
    }
    let size = site.element as usize;
    if is_small(site) {
        return (0..8).map(|at| saved.small(site.mask, at) >> 7 << at).sum();
    }
    let sign = |at: usize| saved.element(site.mask, at * size + size - 1, 1) >> 7;
    (0..count as usize).map(|at| sign(at) << at).sum()
}

// `maskmovq`, whose registers are those of x87.
const fn is_small(site: &Site) -> bool {
    site.how == how::MASKED_MOVE && site.elements == 8
}

/// Records the elements that a masked store has stored.
pub fn record_masked(block: &mut Block, site: &Site) {
    let (mut mask, size, start) = (block.open_mask, u64::from(site.element), block.open_address);
    if site.packed != 0 {
        return record_store(block, site, start, u64::from(mask.count_ones()) * size);
    }
    let mut at = 0;
    while mask != 0 {
        let none = u64::from(mask.trailing_zeros());
        (mask, at) = (mask >> none, at + none);
        let run = u64::from(mask.trailing_ones());
        record_store(block, site, start + at * size, run * size);
        mask = if run >= 64 { 0 } else { mask >> run };
        at += run;
    }
}

/// Executes a gather, a scatter or a masked move, element by element.
pub fn execute(block: &mut Block, site: &Site, registers: &mut Registers) {
    let (saved, size) = (Saved::of(registers), site.element as usize);
    let active = mask(site, registers);
    let base = address(site, registers);
    let segment = if site.segment != 0 { segment_base(site.segment) } else { 0 };
    // Bytes of a masked move that lie side by side in one page, of which all can be stored or none: where, how many.
    let mut run = (0u64, 0u64);
    for at in 0..site.elements as usize {
        if active >> at & 1 == 0 {
            continue;
        }
        let start = if site.how == how::MASKED_MOVE {
            base.wrapping_add(at as u64)
        } else {
            let index_size = site.index_size as usize;
            let index = saved.element(site.immediate as u8, at * index_size, index_size);
            let index = if index_size == 4 { i64::from(index as i32) } else { index as i64 };
            let offset = (index as u64).wrapping_mul(u64::from(site.scale));
            let sum = base.wrapping_sub(segment).wrapping_add(offset);
            segment.wrapping_add(if site.narrow != 0 { sum & 0xffff_ffff } else { sum })
        };
        let place = if is_recorded(site, start, size as u64) { alias(start) } else { start };
        if site.how == how::GATHER {
            record_load(block, site, start, size as u64);
            let mut value = 0u64;
            // SAFETY: the program's own access, at the alias where it is a file's.
            unsafe {
                core::ptr::copy_nonoverlapping(place as *const u8, (&raw mut value).cast(), size)
            };
            saved.set(site.operand, at * size, size, value);
        } else {
            let value = match is_small(site) {
                true => saved.small(site.operand, at),
                false => saved.element(site.operand, at * size, size),
            };
            let is_move = site.how == how::MASKED_MOVE;
            if is_move && (start != run.0 + run.1 || start % PAGE == 0) {
                record(block, kind::NON_TEMPORAL, site, run.0, run.1);
                run = (start, 0);
            }
            // SAFETY: as above.
            unsafe {
                core::ptr::copy_nonoverlapping((&raw const value).cast(), place as *mut u8, size)
            };
            if is_move {
                run.1 += 1;
            } else {
                record_store(block, site, start, size as u64);
            }
        }
    }
    record(block, kind::NON_TEMPORAL, site, run.0, run.1);
    finish(site, &saved);
}

// The mask is cleared, and so is the destination of a gather beyond its elements.
fn finish(site: &Site, saved: &Saved) {
    if site.how == how::MASKED_MOVE {
        return;
    }
    if site.mask_is_vector == 0 {
        saved.set_mask(site.mask, 0);
    } else {
        for at in (0..64).step_by(8) {
            saved.set(site.mask, at, 8, 0);
        }
    }
    if site.how == how::GATHER {
        let used = site.elements as usize * site.element as usize;
        for at in (used..64).step_by(8) {
            saved.set(site.operand, at, 8, 0);
        }
    }
}
