//! The program's own signals. Its handlers are called from ours, so that none runs while a stub is half done, and so
//! that none of ours is ever blocked.

use crate::layout::{Block, OURS_END, RUNTIME, Waiting, register};
use crate::runtime::ring::{block, is_mine, lock, shared, unlock};
use crate::runtime::state::state;
use crate::runtime::stubs::Registers;
use crate::runtime::sys::{self, Action};

/// What the kernel tells of a signal (`siginfo_t`).
#[repr(C)]
pub struct Info {
    pub signal: i32,
    pub error: i32,
    pub code: i32,
    rest: [u64; 14],
}

impl Info {
    /// Of a fault.
    pub const fn address(&self) -> u64 {
        self.rest[0]
    }

    pub const fn set_address(&mut self, address: u64) {
        self.rest[0] = address;
    }
}

/// The signals that we need.
pub const OURS: u64 = bit(sys::SIGSEGV) | bit(sys::SIGTRAP) | bit(sys::SIGSYS) | bit(sys::SIGBUS);

pub const fn bit(signal: u64) -> u64 {
    1 << (signal - 1)
}

// In `ucontext_t`: where the registers and the mask stand.
const REGISTERS: usize = 5;
const MASK: usize = 37;
const TRAP_FLAG: u64 = 0x100;

/// The registers in a signal's frame.
pub fn registers_of(frame: *mut u64) -> Registers {
    // SAFETY: the kernel's frame has them there.
    unsafe { Registers::at(frame.add(REGISTERS)) }
}

/// The mask of signals in a frame.
pub fn mask_of(frame: *mut u64) -> &'static mut u64 {
    // SAFETY: the kernel's frame has it there.
    unsafe { &mut *frame.add(MASK) }
}

/// Sets this thread's mask, and tells what it was.
pub fn set_mask(mask: u64) -> u64 {
    let mut old = 0u64;
    sys::call(sys::RT_SIGPROCMASK, [2, &raw const mask as u64, &raw mut old as u64, 8, 0, 0]);
    old
}

/// Makes a system call for the program, which its signals may interrupt as ever.
pub fn interruptible(number: u64, a: [u64; 6], frame: *mut u64) -> u64 {
    let mask = *mask_of(frame) & !OURS;
    let mut own = 0;
    // SAFETY: the program's own call.
    unsafe {
        crate::runtime::entry::interruptible(number, a.as_ptr(), &raw const mask, &raw mut own)
    }
}

// Whether a thread is in such a call, or at its ends.
fn is_interruptible(pc: u64) -> bool {
    let (begin, end) = (
        crate::runtime::entry::interruptible_begin as *const () as u64,
        crate::runtime::entry::interruptible_end as *const () as u64,
    );
    (begin..=end).contains(&pc)
}

/// Makes a handler of ours that of a signal.
pub fn install(signal: u64, handler: u64, flags: u64, mask: u64) -> u64 {
    let flags = flags | sys::SA_SIGINFO | sys::SA_RESTORER;
    let action = Action {
        handler,
        flags,
        restorer: crate::runtime::entry::restorer as *const () as u64,
        mask,
    };
    sys::call(sys::RT_SIGACTION, [signal, &raw const action as u64, 0, 8, 0, 0])
}

/// Puts the default action back.
pub fn reset(signal: u64) {
    let action = Action { handler: 0, flags: 0, restorer: 0, mask: 0 };
    sys::call(sys::RT_SIGACTION, [signal, &raw const action as u64, 0, 8, 0, 0]);
}

fn action_of(signal: u64) -> Action {
    let block = block();
    let held = is_mine(block);
    if !held {
        lock(block);
    }
    let actions = &mut state().actions;
    let action = actions.get(signal as usize).copied();
    if let (Some(action), Some(slot)) = (action, actions.get_mut(signal as usize))
        && action.flags & sys::SA_RESETHAND != 0
    {
        *slot = Action { handler: 0, ..action };
        if OURS & bit(signal) == 0 {
            reset(signal);
        }
    }
    state().handled = true;
    if !held {
        unlock();
    }
    action.unwrap_or(Action { handler: 0, flags: 0, restorer: 0, mask: 0 })
}

/// An exception of the program's own: what it wants is done, as if we were not here.
pub fn deliver(signal: u64, info: &mut Info, frame: *mut u64) {
    let action = action_of(signal);
    let was_sent = info.code <= 0;
    match action.handler {
        1 if was_sent => {}
        0 | 1 => {
            reset(signal);
            // A breakpoint's is behind us.
            if was_sent || signal == sys::SIGTRAP {
                let (process, thread) = (sys::call0(sys::GETPID), sys::call0(sys::GETTID));
                let info = (info as *const Info) as u64;
                sys::call(sys::RT_TGSIGQUEUEINFO, [process, thread, signal, info, 0, 0]);
                *mask_of(frame) &= !bit(signal);
            }
            // Otherwise the same instruction fails again, with nobody to handle it.
        }
        handler => {
            let own = if action.flags & sys::SA_NODEFER == 0 { bit(signal) } else { 0 };
            let all = set_mask((*mask_of(frame) | action.mask | own) & !OURS);
            call_handler(handler, signal, info, frame);
            set_mask(all);
        }
    }
}

fn call_handler(handler: u64, signal: u64, info: *mut Info, frame: *mut u64) {
    // SAFETY: the program gave this address for this purpose.
    let handler: extern "C" fn(u64, *mut Info, *mut u64) = unsafe { core::mem::transmute(handler) };
    handler(signal, info, frame);
}

/// Any other signal for which the program has a handler.
pub extern "C" fn on_signal(signal: u64, info: &mut Info, frame: *mut u64) {
    let block = block();
    let mut registers = registers_of(frame);
    let count = block.waiting_count as usize;
    // What the program's instruction brought about in a stub does not wait: it would come again.
    let is_own = info.code > 0 && matches!(signal, sys::SIGILL | sys::SIGFPE);
    if is_own && !crate::runtime::faults::leave_stub(block, info, &mut registers) {
        crate::runtime::faults::leave_moved(info, &mut registers);
    }
    let pc = registers.get(register::RIP);
    if !is_own && is_ours(pc) && !is_interruptible(pc) && count < block.waiting.len() {
        // Nothing is half done once the thread is back in the program's code: it goes there step by step.
        // SAFETY: the kernel's frame; it has 128 bytes of what it tells.
        let told = unsafe { *core::ptr::from_mut(info).cast::<[u64; 16]>() };
        block.waiting[count] = Waiting { signal, info: told };
        if count == 0 {
            block.mask = *mask_of(frame);
        }
        block.waiting_count += 1;
        *mask_of(frame) = !OURS;
        // Who holds the lock comes to our routine behind the instruction.
        if block.inside != 0 || is_mine(block) {
            block.stepping = 2;
        } else {
            block.stepping = 1;
            registers.set(register::FLAGS, registers.get(register::FLAGS) | TRAP_FLAG);
        }
        return;
    }
    let action = action_of(signal);
    if action.handler > 1 {
        call_handler(action.handler, signal, info, frame);
    }
}

/// Whether this is code of ours: the runtime's, or a stub.
fn is_ours(pc: u64) -> bool {
    (RUNTIME..OURS_END).contains(&pc) || crate::runtime::mappings::is_stub(pc)
}

/// Has a thread go on step by step that has signals waiting.
pub fn step_on(block: &mut Block, registers: &mut Registers) {
    if block.stepping == 2 {
        block.stepping = 1;
        registers.set(register::FLAGS, registers.get(register::FLAGS) | TRAP_FLAG);
    }
}

/// One step further towards the program's code; there, the signals that wait are sent again.
pub fn finish_stepping(block: &mut Block, frame: *mut u64) {
    let mut registers = registers_of(frame);
    let flags = registers.get(register::FLAGS);
    if block.stepping == 2 {
        // It is in our routine, which takes no steps.
        registers.set(register::FLAGS, flags & !TRAP_FLAG);
        return;
    }
    if is_ours(registers.get(register::RIP)) {
        registers.set(register::FLAGS, flags | TRAP_FLAG);
        return;
    }
    registers.set(register::FLAGS, flags & !TRAP_FLAG);
    *mask_of(frame) = block.mask;
    let (process, thread) = (sys::call0(sys::GETPID), sys::call0(sys::GETTID));
    for one in block.waiting.iter().take(block.waiting_count as usize) {
        let info = (&raw const one.info) as u64;
        sys::call(sys::RT_TGSIGQUEUEINFO, [process, thread, one.signal, info, 0, 0]);
    }
    (block.waiting_count, block.stepping) = (0, 0);
    let _ = shared();
}
