//! An instruction that runs in a stub: what comes before it and after it.

use crate::layout::{Block, Head, Site, condition, how, kind, register, stop, what};
use crate::runtime::questions::give_up;
use crate::runtime::ring::{block, is_mine, lock, push, shared, unlock};
use crate::runtime::state::{Region, state};
use crate::runtime::sys;

/// The registers of a thread, as a signal frame or a stub has them.
pub struct Registers(*mut u64);

impl Registers {
    /// # Safety
    /// There are 18 of them.
    pub const unsafe fn at(first: *mut u64) -> Self {
        Self(first)
    }

    /// Where they are.
    pub const fn first(&self) -> *mut u64 {
        self.0
    }

    pub fn get(&self, register: usize) -> u64 {
        // SAFETY: there are 18 of them.
        unsafe { *self.0.add(register) }
    }

    pub fn set(&mut self, register: usize, value: u64) {
        // SAFETY: there are 18 of them.
        unsafe { *self.0.add(register) = value }
    }

    pub fn of(&self, register: u8) -> u64 {
        if register == register::NONE { 0 } else { self.get(register as usize) }
    }
}

/// The alias of an address.
pub const fn alias(address: u64) -> u64 {
    address ^ crate::layout::ALIAS
}

/// The address that an instruction accesses, without what lies in vectors.
pub fn address(site: &Site, registers: &Registers) -> u64 {
    let index = registers.of(site.index).wrapping_mul(u64::from(site.scale));
    let sum = registers.of(site.base).wrapping_add(index).wrapping_add(site.displacement);
    let sum = if site.narrow != 0 { sum & 0xffff_ffff } else { sum };
    match site.segment {
        0 => sum,
        segment => sum.wrapping_add(segment_base(segment)),
    }
}

/// Where a segment begins: 1 is `fs`, 2 is `gs`.
pub fn segment_base(segment: u8) -> u64 {
    // `gs` is ours, and 0 in the program's eyes.
    if segment == 2 {
        return 0;
    }
    let mut base = 0u64;
    sys::call2(sys::ARCH_PRCTL, 0x1003, &raw mut base as u64);
    base
}

/// The kind of event for a store by a site.
const fn store_kind(site: &Site) -> u8 {
    match site.what {
        what::NON_TEMPORAL => kind::NON_TEMPORAL,
        what::LOCKED => kind::LOCKED,
        _ => kind::STORE,
    }
}

/// Records that `size` bytes at a program's address were accessed, with what is there now where they were stored.
/// What lies outside of the files is left out.
pub fn record(block: &mut Block, kind: u8, site: &Site, start: u64, size: u64) {
    let (mut at, end) = (start, start + size);
    while at < end {
        let Some(region) = state().region(at) else { return };
        let part = region.end.min(end) - at;
        let offset = region.offset + (at - region.start);
        let head = Head { file: region.file, size: part, offset, ..Head::of(kind, site.id) };
        push(block, &head, alias(at) as *const u8);
        at += part;
        if kind != kind::LOAD {
            block.pending = 1;
        }
    }
}

/// Records a store.
pub fn record_store(block: &mut Block, site: &Site, start: u64, size: u64) {
    record(block, store_kind(site), site, start, size);
}

/// Records a load, where they are asked for.
pub fn record_load(block: &mut Block, site: &Site, start: u64, size: u64) {
    if shared().loads != 0 {
        record(block, kind::LOAD, site, start, size);
    }
}

/// Makes ready for the instruction in the stub: afterwards the thread goes on at `site.run`. The caller holds the
/// lock. It stays taken where [`leave`] is to record a store.
pub fn prepare(block: &mut Block, site: &Site, registers: &mut Registers) {
    if is_string(site) {
        return crate::runtime::emulation::prepare_string(block, site, registers);
    }
    let mut ea = address(site, registers);
    let mut accessed = ea;
    if site.how == how::BIT {
        let bits = u64::from(site.size) * 8;
        let number = registers.of(site.operand);
        let number = match site.size {
            2 => i64::from(number as i16),
            4 => i64::from(number as i32),
            _ => number as i64,
        };
        accessed = ea.wrapping_add((number.div_euclid(bits as i64) * i64::from(site.size)) as u64);
    }
    block.open = site.pc;
    block.open_size = 0;
    if is_recorded(site, accessed, extent(block, site)) {
        ea = ea.wrapping_add(alias(accessed).wrapping_sub(accessed));
        if site.reads != 0 {
            record_load(block, site, accessed, extent(block, site));
        }
        if site.writes != 0 {
            block.open_size = u64::from(site.size);
        }
    }
    match site.what {
        what::CLFLUSH | what::CLFLUSHOPT | what::CLWB => flush(block, site, accessed),
        what::LOCKED if block.open_size == 0 && block.pending != 0 => locked(block, site),
        _ => {}
    }
    block.open_address = accessed;
    block.target = ea;
}

/// Whether an access is one to a file. One that is so in part cannot be executed.
pub fn is_recorded(site: &Site, start: u64, size: u64) -> bool {
    let end = start.wrapping_add(size);
    let partly = match state().region(start) {
        Some(region) if end <= region.end || continues(region, end) => return true,
        Some(_) => true,
        None => size > 0 && state().touches(start, size),
    };
    // A line is flushed as a whole, and a prefetch fails nowhere.
    if partly && site.reads | site.writes != 0 {
        give_up(stop::PARTLY, site.pc, start);
    }
    false
}

// Bytes up to the last that is accessed.
fn extent(block: &Block, site: &Site) -> u64 {
    if site.how != how::MASKED {
        return u64::from(site.size);
    }
    let elements = if site.packed != 0 {
        block.open_mask.count_ones()
    } else {
        64 - block.open_mask.leading_zeros()
    };
    u64::from(elements) * u64::from(site.element)
}

/// Whether another mapping goes on where one ends, up to `end`.
pub fn continues(region: Region, end: u64) -> bool {
    state().region(region.end).is_some_and(|next| end <= next.end)
}

/// Records a flush of a line of a file.
pub fn flush(block: &mut Block, site: &Site, address: u64) {
    if let Some(region) = state().region(address) {
        let kind = kind::CLFLUSH + (site.what - what::CLFLUSH);
        let offset = region.offset + (address - region.start);
        push(
            block,
            &Head { file: region.file, offset, ..Head::of(kind, site.id) },
            core::ptr::null(),
        );
        block.pending = 1;
    }
}

/// Records a fence.
pub fn fence(block: &mut Block, site: &Site) {
    push(block, &Head::of(kind::SFENCE + (site.what - what::SFENCE), site.id), core::ptr::null());
    block.pending = 0;
}

fn locked(block: &mut Block, site: &Site) {
    push(block, &Head::of(kind::LOCKED_ONLY, site.id), core::ptr::null());
    block.pending = 0;
}

/// Finds out who called, unless it is a mere load, of which there are too many.
pub fn find_callers(block: &mut Block, site: &Site, registers: &Registers) {
    block.callers = 0;
    if site.writes != 0 || site.what != what::ACCESS {
        crate::runtime::callers::find(block, registers, site.pc);
    }
}

/// From a stub of a site whose code was replaced by a jump.
pub extern "C" fn enter(registers: *mut u64, pc: u64) {
    let block = block();
    // SAFETY: the stub has put 18 there.
    let mut registers = unsafe { Registers::at(registers) };
    begin(block);
    lock(block);
    let site = state().site(pc);
    find_callers(block, site, &registers);
    match site.what {
        what::SFENCE | what::MFENCE => fence(block, site),
        _ => prepare(block, site, &mut registers),
    }
    if !waits(site) {
        block.open = 0;
        unlock();
        // Otherwise what is behind the instruction comes first.
        end(block, &mut registers);
    }
}

// Signals that come from here on wait at full speed: one step takes as long as a thousand instructions.
fn begin(block: &mut Block) {
    block.inside = 1;
    if block.stepping == 1 {
        block.stepping = 2;
    }
}

// The rest of the way to the program's code is short.
fn end(block: &mut Block, registers: &mut Registers) {
    block.inside = 0;
    core::sync::atomic::compiler_fence(core::sync::atomic::Ordering::SeqCst);
    crate::runtime::signals::step_on(block, registers);
}

/// Whether it is one of those with pointers in `rdi` and `rsi`.
pub const fn is_string(site: &Site) -> bool {
    matches!(site.how, how::MOVS | how::STOS | how::LODS | how::CMPS | how::SCAS)
}

/// Whether the stub calls [`leave`] behind the instruction.
pub const fn waits(site: &Site) -> bool {
    is_string(site)
        || site.writes != 0 && matches!(site.what, what::ACCESS | what::NON_TEMPORAL | what::LOCKED)
}

/// Behind the instruction.
pub extern "C" fn leave(registers: *mut u64, pc: u64) {
    let block = block();
    // SAFETY: the stub has put 18 there.
    let mut registers = unsafe { Registers::at(registers) };
    begin(block);
    if !is_mine(block) {
        return end(block, &mut registers);
    }
    let site = state().site(pc);
    if is_string(site) {
        crate::runtime::emulation::leave_string(block, site, &mut registers);
    } else if block.open_size != 0 {
        let zero_flag = registers.get(register::FLAGS) & 0x40 != 0;
        if site.condition == condition::EXCHANGED && !zero_flag {
            if site.what == what::LOCKED && block.pending != 0 {
                locked(block, site);
            }
        } else if site.how == how::MASKED {
            crate::runtime::vectors::record_masked(block, site);
        } else {
            record_store(block, site, block.open_address, block.open_size);
            if site.what == what::LOCKED {
                block.pending = 0;
            }
        }
    }
    block.open = 0;
    unlock();
    end(block, &mut registers);
}
