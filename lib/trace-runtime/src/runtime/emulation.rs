//! Instructions that a stub alone cannot run: of strings, and of a stack that lies in a recorded file.

use crate::layout::{Block, Site, how, register, stop};
use crate::runtime::entry::guard_failed;
use crate::runtime::questions::give_up;
use crate::runtime::state::{Region, state};
use crate::runtime::stubs::{
    Registers, address, alias, continues, is_recorded, record_load, record_store, segment_base,
};
use crate::runtime::sys;

/// Whether a string instruction uses `rdi`, and whether `rsi`.
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

const REGISTERS: [usize; 2] = [register::RDI, register::RSI];

/// Lets a string instruction go as far as its pointers stay in one mapping, or outside of all.
pub fn prepare_string(block: &mut Block, site: &Site, registers: &mut Registers) {
    let element = u64::from(site.element);
    let down = registers.get(register::FLAGS) & 0x400 != 0;
    let total = if site.repeat == 0 { 1 } else { narrowed(site, registers.get(register::RCX)) };
    let mut turn = total;
    block.replaced = [0; 2];
    for (which, used) in pointers(site).into_iter().enumerate() {
        let at = narrowed(site, registers.get(REGISTERS[which])).wrapping_add(base(site, which));
        block.string[which] = at;
        if !used || total == 0 {
            continue;
        }
        let room = match state().region(at) {
            Some(region) => {
                block.replaced[which] = 1;
                inside(region, at, element, down)
            }
            None => outside(at, element, down),
        };
        if room == 0 {
            give_up(stop::PARTLY, site.pc, at);
        }
        turn = turn.min(room);
    }
    for (which, used) in pointers(site).into_iter().enumerate() {
        let at = block.string[which];
        if used {
            registers
                .set(REGISTERS[which], if block.replaced[which] != 0 { alias(at) } else { at });
        }
    }
    if site.repeat != 0 {
        registers.set(register::RCX, turn);
    }
    (block.open, block.open_size, block.total, block.turn) = (site.pc, 1, total, turn);
}

// Elements from here to the end of a mapping in that direction.
fn inside(region: Region, at: u64, element: u64, down: bool) -> u64 {
    let end = at.wrapping_add(element);
    if end > region.end {
        // Adjacent mappings have adjacent aliases.
        return continues(region, end).into();
    }
    if down { (at - region.start) / element + 1 } else { (region.end - at) / element }
}

// Elements from here to the next mapping in that direction.
fn outside(at: u64, element: u64, down: bool) -> u64 {
    let each = || state().regions().iter();
    let above = each()
        .filter(|one| one.start > at)
        .map(|one| one.start - at)
        .min()
        .unwrap_or(u64::MAX >> 1);
    let below =
        each().filter(|one| one.end <= at).map(|one| at - one.end).min().unwrap_or(u64::MAX >> 1);
    match above / element {
        0 => 0,
        _ if down => below / element + 1,
        room => room,
    }
}

/// Puts the program's pointers back, and records what was accessed. Where there is more to do, the program's
/// instruction is executed again.
pub fn leave_string(block: &mut Block, site: &Site, registers: &mut Registers) {
    let left = if site.repeat == 0 { 0 } else { registers.get(register::RCX) };
    let done = settle_string(block, site, registers);
    let equal = registers.get(register::FLAGS) & 0x40 != 0;
    let goes_on = match (site.how, site.repeat) {
        (how::CMPS | how::SCAS, 1) => equal,
        (how::CMPS | how::SCAS, _) => !equal,
        _ => true,
    };
    let again = left == 0 && done < block.total && goes_on;
    block.target = if again { site.pc } else { site.after };
}

/// What was done of it, after which the registers are the program's again.
pub fn settle_string(block: &mut Block, site: &Site, registers: &mut Registers) -> u64 {
    let left = if site.repeat == 0 { 0 } else { registers.get(register::RCX) };
    let done = block.turn - left;
    for (which, used) in pointers(site).into_iter().enumerate() {
        let at = registers.get(REGISTERS[which]);
        let at = if block.replaced[which] != 0 { alias(at) } else { at };
        if used {
            registers.set(REGISTERS[which], narrowed(site, at.wrapping_sub(base(site, which))));
        }
    }
    if site.repeat != 0 {
        registers.set(register::RCX, block.total - done);
    }
    let element = u64::from(site.element);
    let down = registers.get(register::FLAGS) & 0x400 != 0;
    let size = done * element;
    let range = |at: u64| if down { at.wrapping_sub(size.saturating_sub(element)) } else { at };
    let [destination, source] = block.string;
    match site.how {
        how::MOVS => {
            record_load(block, site, range(source), size);
            record_store(block, site, range(destination), size);
        }
        how::STOS => record_store(block, site, range(destination), size),
        how::LODS => record_load(block, site, range(source), size),
        how::CMPS => {
            record_load(block, site, range(source), size);
            record_load(block, site, range(destination), size);
        }
        _ => record_load(block, site, range(destination), size),
    }
    done
}

fn place(site: &Site, at: u64, size: u64) -> *mut u64 {
    (if is_recorded(site, at, size) { alias(at) } else { at }) as *mut u64
}

fn load(block: &mut Block, site: &Site, at: u64, size: u64) -> u64 {
    let place = place(site, at, size);
    record_load(block, site, at, size);
    // SAFETY: the program's own access, at the alias where it is a file's.
    unsafe {
        match size {
            1 => place.cast::<u8>().read_unaligned().into(),
            2 => place.cast::<u16>().read_unaligned().into(),
            4 => place.cast::<u32>().read_unaligned().into(),
            _ => place.read_unaligned(),
        }
    }
}

fn store(block: &mut Block, site: &Site, at: u64, size: u64, value: u64) {
    let place = place(site, at, size);
    // SAFETY: as above.
    unsafe {
        match size {
            2 => place.cast::<u16>().write_unaligned(value as u16),
            _ => place.write_unaligned(value),
        }
    }
    record_store(block, site, at, size);
}

fn push(block: &mut Block, site: &Site, registers: &mut Registers, value: u64) {
    let size = u64::from(site.element);
    let at = registers.get(register::RSP).wrapping_sub(size);
    store(block, site, at, size, value);
    registers.set(register::RSP, at);
}

fn pop(block: &mut Block, site: &Site, registers: &mut Registers) -> u64 {
    let (at, size) = (registers.get(register::RSP), u64::from(site.element));
    let value = load(block, site, at, size);
    registers.set(register::RSP, at.wrapping_add(size));
    value
}

// The end of a signal's handler leaves this flag (ID) what it is then.
fn keep_identification(flags: u64) {
    const ID: u64 = 0x20_0000;
    // SAFETY: it changes a flag that means nothing.
    unsafe {
        core::arch::asm!("pushfq", "and qword ptr [rsp], {no}", "or qword ptr [rsp], {id}", "popfq",
            no = in(reg) !ID, id = in(reg) flags & ID);
    }
}

fn call(block: &mut Block, site: &Site, registers: &mut Registers, next: u64, to: u64) {
    // Intel's have written the return address when they find that there is no such target (tried on an Emerald Rapids), other
    // than their manual's order of steps (SDM volume 2A, "CALL").
    if !is_address(to) && is_intel() {
        push(block, site, registers, next);
    }
    let to = target(block, to);
    push(block, site, registers, next);
    registers.set(register::RIP, to);
}

// "GenuineIntel" in EBX, EDX and ECX.
#[allow(unused_unsafe)]
fn is_intel() -> bool {
    // SAFETY: every processor of x86-64 has the instruction; newer compilers know that.
    unsafe { core::arch::x86_64::__cpuid(0).ebx == u32::from_le_bytes(*b"Genu") }
}

// Processors have 48 bits of it.
fn is_address(address: u64) -> bool {
    (address as i64) << 16 >> 16 == address as i64
}

// Where a jump leads. The processor goes to no address that is none: the jump itself fails.
fn target(block: &mut Block, address: u64) -> u64 {
    if !is_address(address) {
        const SI_KERNEL: u64 = 0x80;
        block.failed = [sys::SIGSEGV, SI_KERNEL, 0];
        // SAFETY: nothing of this instruction is done yet but loads.
        unsafe { guard_failed() }
    }
    address
}

fn selector(which: u8) -> u64 {
    let value: u64;
    // SAFETY: it reads a register.
    unsafe {
        match which {
            1 => {
                core::arch::asm!("mov {:e}, fs", out(reg) value, options(nomem, nostack, preserves_flags))
            }
            _ => {
                core::arch::asm!("mov {:e}, gs", out(reg) value, options(nomem, nostack, preserves_flags))
            }
        }
    }
    value
}

// As in Intel SDM volume 2A, "ENTER".
fn enter(block: &mut Block, site: &Site, registers: &mut Registers) {
    let mut above = registers.get(register::RBP);
    push(block, site, registers, above);
    let frame = registers.get(register::RSP);
    for _ in 1..site.operand {
        above = above.wrapping_sub(8);
        let value = load(block, site, above, 8);
        push(block, site, registers, value);
    }
    if site.operand > 0 {
        push(block, site, registers, frame);
    }
    registers.set(register::RBP, frame);
    registers.set(register::RSP, registers.get(register::RSP).wrapping_sub(site.immediate));
}

/// Whether an instruction is to be executed here instead of in a stub.
pub fn is_here(site: &Site, registers: &Registers) -> bool {
    match site.how {
        how::PUSH_MEMORY | how::POP_MEMORY => {
            let stack = registers.get(register::RSP);
            state().touches(stack.wrapping_sub(8), 16)
        }
        how::PUSH..=how::POP_FLAGS | how::XLAT | how::GATHER | how::SCATTER | how::MASKED_MOVE => {
            true
        }
        how::PUSH_SEGMENT | how::ENTER => true,
        _ => false,
    }
}

/// Executes it. Where memory cannot be accessed, it does not return: see [`crate::runtime::entry::guarded`].
pub extern "C" fn execute(block: &mut Block, site: &Site, registers: *mut u64) {
    // SAFETY: those of a signal's frame.
    let registers = &mut unsafe { Registers::at(registers) };
    let next = registers.get(register::RIP) + u64::from(site.length);
    registers.set(register::RIP, next);
    let size = u64::from(site.size);
    let set = |registers: &mut Registers, value: u64| {
        let register = site.operand as usize;
        let old = registers.get(register);
        registers
            .set(register, if site.element == 2 { old & !0xffff | value & 0xffff } else { value });
    };
    match site.how {
        how::PUSH => {
            let value = if site.operand == register::NONE {
                site.immediate
            } else {
                registers.of(site.operand)
            };
            push(block, site, registers, value);
        }
        how::PUSH_SEGMENT => push(block, site, registers, selector(site.operand)),
        how::ENTER => enter(block, site, registers),
        how::PUSH_FLAGS => {
            let flags = registers.get(register::FLAGS) & 0xfc_ffff;
            push(block, site, registers, flags);
        }
        how::PUSH_MEMORY => {
            let value = load(block, site, address(site, registers), size);
            push(block, site, registers, value);
        }
        how::POP => {
            let value = pop(block, site, registers);
            set(registers, value);
        }
        how::POP_FLAGS => {
            let (old, new) = (registers.get(register::FLAGS), pop(block, site, registers));
            // What a program may change.
            const FREE: u64 = 0x24_0dd5 | 0x4_0000;
            let free = if site.element == 2 { FREE & 0xffff } else { FREE };
            registers.set(register::FLAGS, old & !free | new & free);
            if site.element == 8 {
                keep_identification(new);
            }
        }
        how::POP_MEMORY => {
            // The address is computed with the stack pointer behind the value (Intel SDM volume 2B, "POP").
            let value = pop(block, site, registers);
            let at = address(site, registers);
            store(block, site, at, size, value);
        }
        how::CALL => {
            push(block, site, registers, next);
            registers.set(register::RIP, site.immediate);
        }
        how::CALL_REGISTER => {
            let target = registers.of(site.operand);
            call(block, site, registers, next, target);
        }
        how::CALL_MEMORY => {
            let target = load(block, site, address(site, registers), 8);
            call(block, site, registers, next, target);
        }
        how::JUMP_MEMORY => {
            let target = load(block, site, address(site, registers), 8);
            let target = self::target(block, target);
            registers.set(register::RIP, target);
        }
        how::RETURN => {
            let target = pop(block, site, registers);
            let target = self::target(block, target);
            registers.set(register::RSP, registers.get(register::RSP).wrapping_add(site.immediate));
            registers.set(register::RIP, target);
        }
        how::LEAVE => {
            registers.set(register::RSP, registers.get(register::RBP));
            let value = pop(block, site, registers);
            let old = registers.get(register::RBP);
            registers
                .set(register::RBP, if site.element == 2 { old & !0xffff | value } else { value });
        }
        how::XLAT => {
            let index = registers.get(register::RAX) & 0xff;
            let value = load(block, site, address(site, registers).wrapping_add(index), 1);
            registers.set(register::RAX, registers.get(register::RAX) & !0xff | value);
        }
        _ => crate::runtime::vectors::execute(block, site, registers),
    }
}
