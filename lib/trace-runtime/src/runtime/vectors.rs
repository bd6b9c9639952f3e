//! Gathers, scatters and masked accesses: which elements are accessed stands in vector and mask
//! registers, which the kernel saves in a signal's frame (the layout of XSAVE: Intel SDM volume 1,
//! section 13.4; the parts' places are those that CPUID names).

use super::addresses::{address, segment_base};
use super::blocks::shared;
use super::events::{record, record_store};
use super::frame::Frame;
use super::lock::Held;
use super::step::Step;
use crate::layout::{Block, Site, how, kind};

const IN_USE: usize = 512;
const PAGE: u64 = 4096;

/// The saved state of the frame of a signal that is being handled.
pub struct Saved(*mut u8);

impl Saved {
    /// That of the frame that the kernel has given to a handler, which has not returned.
    pub const fn of(frame: &Frame) -> Self {
        Self(frame.saved)
    }

    fn part(&self, number: usize) -> *mut u8 {
        let offset = shared().state_offsets.get(number).copied().unwrap_or_default();
        self.0.wrapping_add(offset as usize)
    }

    // A byte of an MMX register.
    fn small(&self, number: u8, at: usize) -> u64 {
        // SAFETY: the kernel's frame has eight of them there, of 16 bytes each.
        unsafe { self.0.add(32 + 16 * number as usize + at).read().into() }
    }

    // Where 16, 32 or 64 bytes of a vector go on from byte `at`, and which part of the state that
    // is.
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
        // SAFETY: the header of the extended state, which begins with this, follows the first 512
        // bytes.
        unsafe { self.0.add(IN_USE).cast::<u64>().read() }
    }

    fn element(&self, number: u8, at: usize, size: usize) -> u64 {
        let (place, part) = self.vector(number, at);
        if self.in_use() >> part & 1 == 0 {
            return 0;
        }
        let mut value = 0u64;
        // SAFETY: the part is in use, and so it is in the frame, where CPUID says. An element has 8
        // bytes at most.
        unsafe { core::ptr::copy_nonoverlapping(place, (&raw mut value).cast(), size) };
        value
    }

    fn set(&self, number: u8, at: usize, size: usize, value: u64) {
        let (place, part) = self.vector(number, at);
        let is_absent = part > 1 && shared().state_offsets[part as usize] == 0;
        if is_absent || value == 0 && self.in_use() >> part & 1 == 0 {
            return;
        }
        // SAFETY: the processor has this part, and so the frame has a place for it, where CPUID
        // says. The kernel puts back what the header says is in use.
        unsafe {
            core::ptr::copy_nonoverlapping((&raw const value).cast(), place, size);
            self.0.add(IN_USE).cast::<u64>().write(self.in_use() | 1 << part);
        }
    }

    fn mask(&self, number: u8) -> u64 {
        if self.in_use() >> 5 & 1 == 0 {
            return 0;
        }
        // SAFETY: the part with eight masks is in use, and so it is in the frame.
        unsafe { self.part(5).add(8 * number as usize).cast::<u64>().read() }
    }

    fn set_mask(&self, number: u8, value: u64) {
        // SAFETY: the instruction has a mask register, and so the processor has this part, and the
        // frame a place for it.
        unsafe { self.part(5).add(8 * number as usize).cast::<u64>().write(value) };
    }
}

/// Which elements the instruction accesses.
pub fn mask(site: &Site, saved: &Saved) -> u64 {
    let count = u32::from(site.elements);
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
pub fn record_masked(held: &Held, block: &Block, site: &Site) {
    let (mut mask, start) = (block.open_mask.get(), block.open_address.get());
    let size = u64::from(site.element);
    if site.packed != 0 {
        return record_store(held, block, site, start, u64::from(mask.count_ones()) * size);
    }
    let mut at = 0;
    while mask != 0 {
        let none = u64::from(mask.trailing_zeros());
        (mask, at) = (mask >> none, at + none);
        let run = u64::from(mask.trailing_ones());
        record_store(held, block, site, start + at * size, run * size);
        mask = if run >= 64 { 0 } else { mask >> run };
        at += run;
    }
}

/// Executes a gather, a scatter or a masked move, element by element.
pub fn execute(step: &mut Step, saved: &Saved) {
    let (held, block, site) = (step.held(), step.block, step.site);
    let size = site.element as usize;
    let active = mask(site, saved);
    let base = address(site, step.registers);
    let segment = if site.segment != 0 { segment_base(site.segment) } else { 0 };
    // Bytes of a masked move that lie side by side in one page, of which all can be stored or none:
    // where, how many.
    let mut run = (0u64, 0u64);
    for at in (0..site.elements as usize).filter(|at| active >> at & 1 != 0) {
        if site.how == how::MASKED_MOVE {
            let start = base.wrapping_add(at as u64);
            let value = if is_small(site) {
                saved.small(site.operand, at)
            } else {
                saved.element(site.operand, at * size, size)
            };
            if start != run.0 + run.1 || start.is_multiple_of(PAGE) {
                record(held, block, kind::NON_TEMPORAL, site, run.0, run.1);
                run = (start, 0);
            }
            step.store_element(start, size, value);
            run.1 += 1;
            continue;
        }
        let start = indexed(site, saved, [base, segment], at);
        if site.how == how::GATHER {
            let value = step.load_element(start, size);
            saved.set(site.operand, at * size, size, value);
        } else {
            step.store_element(start, size, saved.element(site.operand, at * size, size));
            record_store(held, block, site, start, size as u64);
        }
    }
    record(held, block, kind::NON_TEMPORAL, site, run.0, run.1);
    finish(site, saved);
}

// The address of an element, whose index is in a vector. The base has the segment's in it.
fn indexed(site: &Site, saved: &Saved, [base, segment]: [u64; 2], at: usize) -> u64 {
    let size = site.index_size as usize;
    let index = saved.element(site.immediate as u8, at * size, size);
    let index = if size == 4 { i64::from(index as i32) } else { index as i64 };
    let offset = (index as u64).wrapping_mul(u64::from(site.scale));
    let sum = base.wrapping_sub(segment).wrapping_add(offset);
    segment.wrapping_add(if site.narrow != 0 { sum & 0xffff_ffff } else { sum })
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
