//! An instruction that runs in a stub: what comes before it and after it.

use core::sync::atomic::Ordering::SeqCst;
use core::sync::atomic::compiler_fence;

use super::addresses::{address, alias};
use super::blocks::block;
use super::events::{fence, flush, is_recorded, locked, record_load, record_store};
use super::frame::Registers;
use super::lock::{Held, is_mine};
use super::strings::{self, is_string};
use super::{callers, vectors};
use crate::layout::{Block, Site, condition, how, register, what};

/// Makes ready for the instruction in the stub: afterwards the thread goes on at `site.run`. The
/// lock is to be kept where [`leave`] is to record a store.
pub fn prepare(held: &Held, block: &Block, site: &Site, registers: &mut Registers) {
    if is_string(site) {
        return strings::prepare(held, block, site, registers);
    }
    let mut target = address(site, registers);
    let accessed = if site.how == how::BIT { bit(site, registers, target) } else { target };
    block.open.set(site.pc);
    block.open_size.set(0);
    if is_recorded(held, site, accessed, extent(block, site)) {
        target = target.wrapping_add(alias(accessed).wrapping_sub(accessed));
        if site.reads != 0 {
            record_load(held, block, site, accessed, extent(block, site));
        }
        if site.writes != 0 {
            block.open_size.set(u64::from(site.size));
        }
    }
    match site.what {
        what::CLFLUSH | what::CLFLUSHOPT | what::CLWB => flush(held, block, site, accessed),
        what::LOCKED if block.open_size.get() == 0 && block.pending.get() != 0 => {
            locked(held, block, site);
        }
        _ => {}
    }
    block.open_address.set(accessed);
    block.target.set(target);
}

// Where `bt` and the instructions like it access a bit, whose number is in a register.
fn bit(site: &Site, registers: &Registers, base: u64) -> u64 {
    let bits = i64::from(site.size) * 8;
    let number = registers.of(site.operand);
    let number = match site.size {
        2 => i64::from(number as i16),
        4 => i64::from(number as i32),
        _ => number as i64,
    };
    base.wrapping_add((number.div_euclid(bits) * i64::from(site.size)) as u64)
}

// Bytes up to the last that is accessed.
fn extent(block: &Block, site: &Site) -> u64 {
    if site.how != how::MASKED {
        return u64::from(site.size);
    }
    let mask = block.open_mask.get();
    let elements = if site.packed != 0 { mask.count_ones() } else { 64 - mask.leading_zeros() };
    u64::from(elements) * u64::from(site.element)
}

/// Finds the callers, unless it is a mere load, of which there are too many.
pub fn find_callers(held: &mut Held, block: &Block, site: &Site, registers: &Registers) {
    block.callers.set(0);
    if site.writes != 0 || site.what != what::ACCESS {
        callers::find(held, block, registers, site.pc);
    }
}

/// From a stub of a site whose code was replaced by a jump.
pub extern "C" fn enter(registers: &mut Registers, pc: u64) {
    let block = block();
    begin(block);
    let mut held = Held::acquire();
    let site = held.site(pc);
    find_callers(&mut held, block, &site, registers);
    match site.what {
        what::SFENCE | what::MFENCE => fence(&held, block, &site),
        _ => prepare(&held, block, &site, registers),
    }
    if waits(&site) {
        held.keep();
    } else {
        block.open.set(0);
        drop(held);
        // Otherwise what is behind the instruction comes first.
        end(block, registers);
    }
}

// Signals that come from here on wait at full speed: one step takes as long as a thousand
// instructions.
fn begin(block: &Block) {
    block.inside.set(1);
    if block.stepping.get() == 1 {
        block.stepping.set(2);
    }
}

// The rest of the way to the program's code is short.
fn end(block: &Block, registers: &mut Registers) {
    block.inside.set(0);
    compiler_fence(SeqCst);
    step_on(block, registers);
}

/// Has a thread go on step by step that has signals waiting.
pub fn step_on(block: &Block, registers: &mut Registers) {
    if block.stepping.get() == 2 {
        block.stepping.set(1);
        registers.trace(true);
    }
}

/// Whether the stub calls [`leave`] behind the instruction.
pub const fn waits(site: &Site) -> bool {
    is_string(site)
        || site.writes != 0 && matches!(site.what, what::ACCESS | what::NON_TEMPORAL | what::LOCKED)
}

/// Behind the instruction.
pub extern "C" fn leave(registers: &mut Registers, pc: u64) {
    let block = block();
    begin(block);
    if !is_mine(block) {
        return end(block, registers);
    }
    // SAFETY: the thread has the lock, which `enter` or the handler of the fault has kept for this
    // stub. Both have returned.
    let mut held = unsafe { Held::resume() };
    let site = held.site(pc);
    if is_string(&site) {
        strings::leave(&held, block, &site, registers);
    } else if block.open_size.get() != 0 {
        settle(&held, block, &site, registers);
    }
    block.open.set(0);
    drop(held);
    end(block, registers);
}

// Records what a store has stored in a file.
fn settle(held: &Held, block: &Block, site: &Site, registers: &Registers) {
    const ZERO_FLAG: u64 = 0x40;
    let is_equal = registers.get(register::FLAGS) & ZERO_FLAG != 0;
    if site.condition == condition::EXCHANGED && !is_equal {
        if site.what == what::LOCKED && block.pending.get() != 0 {
            locked(held, block, site);
        }
    } else if site.how == how::MASKED {
        vectors::record_masked(held, block, site);
    } else {
        record_store(held, block, site, block.open_address.get(), block.open_size.get());
        if site.what == what::LOCKED {
            block.pending.set(0);
        }
    }
}
