//! The callers of the function that an instruction stands in: the addresses that its stack returns
//! to, innermost first.

use super::frame::Registers;
use super::lock::Held;
use super::routines::safe_read;
use super::unwinding::{Rule, mix};
use crate::layout::{Block, MOST_FRAMES, RUNTIME, SHARED, frame, register};

// What lies at an address of the stack, if it can be read.
fn read(held: &Held, address: u64) -> Option<u64> {
    if held.region(address).is_some() {
        return None;
    }
    let mut value = 0;
    // SAFETY: the value is ours. Where nothing is mapped, a handler has it return false.
    unsafe { safe_read(address, &mut value) }.then_some(value)
}

/// Finds the callers of the function that `pc` stands in. Their number is in `block.callers`
/// afterwards.
pub fn find(held: &mut Held, block: &Block, registers: &Registers, pc: u64) {
    let (mut stack, mut base) = (registers.get(register::RSP), registers.get(register::RBP));
    let mut pc = pc;
    let (mut count, mut hash) = (0, 1u64);
    while count < MOST_FRAMES {
        let Rule { kind, offset, base: saved, .. } = held.callers.rule(pc);
        let from = match kind {
            frame::BY_STACK => stack,
            frame::BY_BASE => base,
            _ => break,
        };
        let frame = from.wrapping_add(offset);
        // Stacks grow down: what is not above is no caller's.
        if frame <= stack {
            break;
        }
        let Some(to) = read(held, frame.wrapping_sub(8)).filter(|to| *to != 0) else { break };
        // Handlers are called from our code: for the program, they have no caller.
        if (RUNTIME..SHARED).contains(&to) {
            break;
        }
        if saved != 0 {
            let Some(value) = read(held, frame.wrapping_add(saved)) else { break };
            base = value;
        }
        block.frames[count].set(to);
        count += 1;
        hash = mix(hash.rotate_left(5) ^ to);
        // A call is before the place that it returns to.
        (pc, stack) = (to - 1, frame);
    }
    let number = if count == 0 { 0 } else { held.callers.stack(hash.max(1), count as u64) };
    block.callers.set(number);
}

/// The site of the system call that a thread is in, whose callers are in `block.callers`
/// afterwards.
pub fn of_call(held: &mut Held, block: &Block, registers: &Registers) -> u32 {
    const LENGTH: u64 = 2;
    let pc = registers.get(register::RIP) - LENGTH;
    find(held, block, registers, pc);
    held.callers.call(pc)
}
