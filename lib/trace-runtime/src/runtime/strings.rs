//! Instructions of strings: `movs`, `stos`, `lods`, `cmps` and `scas`, repeated or not.

use super::addresses::{alias, segment_base};
use super::events::{continues, record_load, record_store};
use super::frame::Registers;
use super::lock::Held;
use super::questions::give_up;
use super::state::Region;
use crate::layout::{Block, Site, how, register, stop};

const DIRECTION_FLAG: u64 = 0x400;
const ZERO_FLAG: u64 = 0x40;
const POINTERS: [usize; 2] = [register::RDI, register::RSI];

/// Whether it is one of those with pointers in `rdi` and `rsi`.
pub const fn is_string(site: &Site) -> bool {
    matches!(site.how, how::MOVS | how::STOS | how::LODS | how::CMPS | how::SCAS)
}

// Whether it uses `rdi`, and whether `rsi`.
const fn pointers(site: &Site) -> [bool; 2] {
    [site.how != how::LODS, matches!(site.how, how::MOVS | how::LODS | how::CMPS)]
}

// What of a register counts where addresses have 32 bits.
const fn narrowed(site: &Site, value: u64) -> u64 {
    if site.narrow != 0 { value & 0xffff_ffff } else { value }
}

// What is added to a pointer: a segment's beginning, to the source.
fn base(site: &Site, which: usize) -> u64 {
    if which == 1 && site.segment != 0 { segment_base(site.segment) } else { 0 }
}

/// Lets a string instruction go as far as its pointers stay in one mapping, or outside of all.
pub fn prepare(held: &Held, block: &Block, site: &Site, registers: &mut Registers) {
    let element = u64::from(site.element);
    let down = registers.get(register::FLAGS) & DIRECTION_FLAG != 0;
    let total = if site.repeat == 0 { 1 } else { narrowed(site, registers.get(register::RCX)) };
    let mut turn = total;
    let (mut string, mut replaced) = ([0; 2], [0; 2]);
    for (which, used) in pointers(site).into_iter().enumerate() {
        let at = narrowed(site, registers.get(POINTERS[which])).wrapping_add(base(site, which));
        string[which] = at;
        if !used || total == 0 {
            continue;
        }
        let room = match held.region(at) {
            Some(region) => {
                replaced[which] = 1;
                inside(held, region, at, element, down)
            }
            None => outside(held, at, element, down),
        };
        if room == 0 {
            give_up(stop::PARTLY, site.pc, at);
        }
        turn = turn.min(room);
    }
    for (which, used) in pointers(site).into_iter().enumerate() {
        let at = string[which];
        if used {
            registers.set(POINTERS[which], if replaced[which] != 0 { alias(at) } else { at });
        }
    }
    if site.repeat != 0 {
        registers.set(register::RCX, turn);
    }
    block.string.set(string);
    block.replaced.set(replaced);
    block.open.set(site.pc);
    block.open_size.set(1);
    block.total.set(total);
    block.turn.set(turn);
}

// Elements from here to the end of a mapping in that direction.
fn inside(held: &Held, region: Region, at: u64, element: u64, down: bool) -> u64 {
    let end = at.wrapping_add(element);
    if end > region.end {
        // Adjacent mappings have adjacent aliases.
        return continues(held, region, end).into();
    }
    if down { (at - region.start) / element + 1 } else { (region.end - at) / element }
}

// Elements from here to the next mapping in that direction.
fn outside(held: &Held, at: u64, element: u64, down: bool) -> u64 {
    const FAR: u64 = u64::MAX >> 1;
    let each = || held.regions().iter();
    let above = each().filter(|one| one.start > at).map(|one| one.start - at).min();
    let below = each().filter(|one| one.end <= at).map(|one| at - one.end).min();
    match above.unwrap_or(FAR) / element {
        0 => 0,
        _ if down => below.unwrap_or(FAR) / element + 1,
        room => room,
    }
}

/// Puts the program's pointers back, and records what was accessed. Where there is more to do, the
/// program's instruction is executed again.
pub fn leave(held: &Held, block: &Block, site: &Site, registers: &mut Registers) {
    let left = if site.repeat == 0 { 0 } else { registers.get(register::RCX) };
    let done = settle(held, block, site, registers);
    let equal = registers.get(register::FLAGS) & ZERO_FLAG != 0;
    let goes_on = match (site.how, site.repeat) {
        (how::CMPS | how::SCAS, 1) => equal,
        (how::CMPS | how::SCAS, _) => !equal,
        _ => true,
    };
    let again = left == 0 && done < block.total.get() && goes_on;
    block.target.set(if again { site.pc } else { site.after });
}

/// Records what was done of it, and returns how many elements that was. Afterwards the registers
/// are the program's again.
pub fn settle(held: &Held, block: &Block, site: &Site, registers: &mut Registers) -> u64 {
    let left = if site.repeat == 0 { 0 } else { registers.get(register::RCX) };
    let done = block.turn.get() - left;
    for (which, used) in pointers(site).into_iter().enumerate() {
        let at = registers.get(POINTERS[which]);
        let at = if block.replaced.get()[which] != 0 { alias(at) } else { at };
        if used {
            registers.set(POINTERS[which], narrowed(site, at.wrapping_sub(base(site, which))));
        }
    }
    if site.repeat != 0 {
        registers.set(register::RCX, block.total.get() - done);
    }
    let element = u64::from(site.element);
    let down = registers.get(register::FLAGS) & DIRECTION_FLAG != 0;
    let size = done * element;
    let range = |at: u64| if down { at.wrapping_sub(size.saturating_sub(element)) } else { at };
    let [destination, source] = block.string.get();
    match site.how {
        how::MOVS => {
            record_load(held, block, site, range(source), size);
            record_store(held, block, site, range(destination), size);
        }
        how::STOS => record_store(held, block, site, range(destination), size),
        how::LODS => record_load(held, block, site, range(source), size),
        how::CMPS => {
            record_load(held, block, site, range(source), size);
            record_load(held, block, site, range(destination), size);
        }
        _ => record_load(held, block, site, range(destination), size),
    }
    done
}
