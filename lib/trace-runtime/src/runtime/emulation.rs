//! Instructions that a stub alone cannot run: of a stack that lies in a recorded file, and of
//! elements that a vector names.

use super::addresses::address;
use super::frame::{Frame, Registers};
use super::lock::Held;
use super::routines::guard_failed;
use super::step::Step;
use super::{sys, vectors};
use crate::layout::{Block, Site, how, register};

/// Whether an instruction is to be executed here instead of in a stub.
pub fn is_here(held: &Held, site: &Site, registers: &Registers) -> bool {
    match site.how {
        how::PUSH_MEMORY | how::POP_MEMORY => {
            let stack = registers.get(register::RSP);
            held.touches(stack.wrapping_sub(8), 16)
        }
        how::PUSH..=how::POP_FLAGS
        | how::XLAT
        | how::GATHER
        | how::SCATTER
        | how::MASKED_MOVE
        | how::PUSH_SEGMENT
        | how::ENTER => true,
        _ => false,
    }
}

/// Executes it. Where memory cannot be accessed, it does not return.
///
/// # Safety
/// [`super::routines::guarded`] has called it, for a caller that has the lock and does not use its
/// own token until that returns.
pub unsafe extern "C" fn execute(block: &Block, site: &Site, frame: &mut Frame) {
    // SAFETY: the caller has the lock, and does not use its token meanwhile.
    let held = unsafe { Held::resume() };
    let next = frame.registers.get(register::RIP) + u64::from(site.length);
    frame.registers.set(register::RIP, next);
    if matches!(site.how, how::GATHER | how::SCATTER | how::MASKED_MOVE) {
        let saved = vectors::Saved::of(frame);
        // SAFETY: inside `guarded`; the elements are those that the instruction accesses.
        let mut step = unsafe { Step::new(&held, block, site, &mut frame.registers) };
        vectors::execute(&mut step, &saved);
    } else {
        // SAFETY: inside `guarded`; each function accesses what its instruction does.
        let mut step = unsafe { Step::new(&held, block, site, &mut frame.registers) };
        match site.how {
            how::PUSH | how::PUSH_SEGMENT | how::PUSH_FLAGS | how::PUSH_MEMORY => push(&mut step),
            how::POP | how::POP_FLAGS | how::POP_MEMORY => pop(&mut step),
            how::ENTER => enter(&mut step),
            how::LEAVE => leave(&mut step),
            how::XLAT => translate(&mut step),
            _ => jump(&mut step, next),
        }
    }
    // The caller goes on with its own.
    held.keep();
}

fn push(step: &mut Step) {
    let (site, registers) = (step.site, &*step.registers);
    let value = match site.how {
        how::PUSH if site.operand == register::NONE => site.immediate,
        how::PUSH => registers.of(site.operand),
        how::PUSH_SEGMENT => selector(site.operand),
        how::PUSH_FLAGS => registers.get(register::FLAGS) & 0xfc_ffff,
        _ => step.load(address(site, registers), u64::from(site.size)),
    };
    step.push(value);
}

fn pop(step: &mut Step) {
    let site = step.site;
    let value = step.pop();
    match site.how {
        how::POP => {
            let old = step.registers.get(site.operand as usize);
            let value = if site.element == 2 { old & !0xffff | value & 0xffff } else { value };
            step.registers.set(site.operand as usize, value);
        }
        how::POP_FLAGS => {
            // What a program may change.
            const FREE: u64 = 0x24_0dd5 | 0x4_0000;
            let free = if site.element == 2 { FREE & 0xffff } else { FREE };
            let old = step.registers.get(register::FLAGS);
            step.registers.set(register::FLAGS, old & !free | value & free);
            if site.element == 8 {
                keep_identification(value);
            }
        }
        _ => {
            // The address is computed with the stack pointer behind the value (Intel SDM volume 2B,
            // "POP").
            let at = address(site, step.registers);
            step.store(at, u64::from(site.size), value);
        }
    }
}

// Calls, jumps and returns; `next` is what is behind the instruction.
fn jump(step: &mut Step, next: u64) {
    let site = step.site;
    match site.how {
        how::CALL => {
            step.push(next);
            step.registers.set(register::RIP, site.immediate);
        }
        how::CALL_REGISTER => {
            let to = step.registers.of(site.operand);
            call(step, next, to);
        }
        how::CALL_MEMORY => {
            let to = step.load(address(site, step.registers), 8);
            call(step, next, to);
        }
        how::JUMP_MEMORY => {
            let to = step.load(address(site, step.registers), 8);
            let to = target(step, to);
            step.registers.set(register::RIP, to);
        }
        // `how::RETURN`: there are no others.
        _ => {
            let to = step.pop();
            let to = target(step, to);
            let stack = step.registers.get(register::RSP).wrapping_add(site.immediate);
            step.registers.set(register::RSP, stack);
            step.registers.set(register::RIP, to);
        }
    }
}

fn call(step: &mut Step, next: u64, to: u64) {
    // Intel's have written the return address when they find that there is no such target (tried on
    // an Emerald Rapids), other than their manual's order of steps (SDM volume 2A, "CALL").
    if !is_address(to) && is_intel() {
        step.push(next);
    }
    let to = target(step, to);
    step.push(next);
    step.registers.set(register::RIP, to);
}

// "GenuineIntel" in EBX, EDX and ECX.
#[allow(unused_unsafe, reason = "newer compilers know that this needs no feature")]
fn is_intel() -> bool {
    // SAFETY: every processor of x86-64 has the instruction.
    unsafe { core::arch::x86_64::__cpuid(0).ebx == u32::from_le_bytes(*b"Genu") }
}

// Processors have 48 bits of it.
fn is_address(address: u64) -> bool {
    (address as i64) << 16 >> 16 == address as i64
}

// Where a jump leads. The processor goes to no address that is none: the jump itself fails.
fn target(step: &Step, address: u64) -> u64 {
    if !is_address(address) {
        const SI_KERNEL: u64 = 0x80;
        step.block.failed.set([sys::SIGSEGV, SI_KERNEL, 0]);
        // SAFETY: there is a step only inside `guarded`. Nothing is to be dropped on the way.
        unsafe { guard_failed() }
    }
    address
}

fn selector(which: u8) -> u64 {
    let value: u64;
    // SAFETY: it reads a register that any program may read.
    unsafe {
        use core::arch::asm;
        match which {
            1 => asm!("mov {:e}, fs", out(reg) value, options(nomem, nostack, preserves_flags)),
            _ => asm!("mov {:e}, gs", out(reg) value, options(nomem, nostack, preserves_flags)),
        }
    }
    value
}

// The end of a signal's handler leaves this flag (ID) what it is then.
fn keep_identification(flags: u64) {
    const ID: u64 = 0x20_0000;
    // SAFETY: it changes a flag that means nothing. `pushfq` and `popfq` leave the stack as it was,
    // and no operand is on it.
    unsafe {
        core::arch::asm!("pushfq", "and qword ptr [rsp], {no}", "or qword ptr [rsp], {id}",
            "popfq", no = in(reg) !ID, id = in(reg) flags & ID);
    }
}

// As in Intel SDM volume 2A, "ENTER".
fn enter(step: &mut Step) {
    let mut above = step.registers.get(register::RBP);
    step.push(above);
    let frame = step.registers.get(register::RSP);
    for _ in 1..step.site.operand {
        above = above.wrapping_sub(8);
        let value = step.load(above, 8);
        step.push(value);
    }
    if step.site.operand > 0 {
        step.push(frame);
    }
    step.registers.set(register::RBP, frame);
    let stack = step.registers.get(register::RSP).wrapping_sub(step.site.immediate);
    step.registers.set(register::RSP, stack);
}

fn leave(step: &mut Step) {
    step.registers.set(register::RSP, step.registers.get(register::RBP));
    let value = step.pop();
    let old = step.registers.get(register::RBP);
    let value = if step.site.element == 2 { old & !0xffff | value } else { value };
    step.registers.set(register::RBP, value);
}

fn translate(step: &mut Step) {
    let old = step.registers.get(register::RAX);
    let at = address(step.site, step.registers).wrapping_add(old & 0xff);
    let value = step.load(at, 1);
    step.registers.set(register::RAX, old & !0xff | value);
}
