//! The program's own signals. Its handlers are called from ours, so that none runs while a stub is
//! half done, and so that none of ours is ever blocked.

use super::actions::{call_handler, take};
use super::blocks::block;
use super::exits::{leave_moved, leave_stub};
use super::frame::{Frame, Info, OURS};
use super::lock::is_mine;
use super::mappings::is_stub;
use super::routines::{interruptible_begin, interruptible_end};
use super::sys;
use crate::layout::{Block, OURS_END, RUNTIME, Waiting, register};

/// Any signal but ours for which the program has a handler.
pub extern "C" fn on_signal(signal: u64, info: &mut Info, frame: &mut Frame) {
    let block = block();
    let count = block.waiting_count.get() as usize;
    // What the program's instruction brought about in a stub does not wait: it would come again.
    let is_own = info.code > 0 && matches!(signal, sys::SIGILL | sys::SIGFPE);
    if is_own && !leave_stub(block, info, &mut frame.registers) {
        leave_moved(info, &mut frame.registers);
    }
    let pc = frame.registers.get(register::RIP);
    let is_free = is_own || !is_ours(pc) || is_interruptible(pc);
    let Some(slot) = block.waiting.get(count).filter(|_| !is_free) else {
        let action = take(signal);
        if action.handler > 1 {
            call_handler(action.handler, signal, info, frame);
        }
        return;
    };
    // Nothing is half done once the thread is back in the program's code: it goes there step by
    // step.
    slot.set(Waiting { signal, info: info.words() });
    if count == 0 {
        block.mask.set(frame.mask);
    }
    block.waiting_count.set(count as u32 + 1);
    frame.mask = !OURS;
    // What holds the lock comes to our routine behind the instruction.
    if block.inside.get() != 0 || is_mine(block) {
        block.stepping.set(2);
    } else {
        block.stepping.set(1);
        frame.registers.trace(true);
    }
}

// Whether a thread is in a call that may be interrupted, or at its ends.
fn is_interruptible(pc: u64) -> bool {
    let (begin, end) =
        (interruptible_begin as *const () as u64, interruptible_end as *const () as u64);
    (begin..=end).contains(&pc)
}

// Whether this is code of ours: the runtime's, or a stub.
fn is_ours(pc: u64) -> bool {
    (RUNTIME..OURS_END).contains(&pc) || is_stub(pc)
}

/// One step further towards the program's code; there, the signals that wait are sent again.
pub fn finish_stepping(block: &Block, frame: &mut Frame) {
    if block.stepping.get() == 2 {
        // It is in our routine, which takes no steps.
        return frame.registers.trace(false);
    }
    if is_ours(frame.registers.get(register::RIP)) {
        return frame.registers.trace(true);
    }
    frame.registers.trace(false);
    frame.mask = block.mask.get();
    for one in block.waiting.iter().take(block.waiting_count.get() as usize) {
        let Waiting { signal, info } = one.get();
        sys::queue(signal, &info);
    }
    block.waiting_count.set(0);
    block.stepping.set(0);
}
