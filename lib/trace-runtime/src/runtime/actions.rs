//! What the program wants of a signal: its actions, and the calls of its handlers.

use super::frame::{Frame, Info, OURS, bit};
use super::lock::Held;
use super::routines::{self, restorer};
use super::sys::{self, Action};

/// A handler of signals, with `SA_SIGINFO`.
pub type Handler = extern "C" fn(u64, &mut Info, &mut Frame);

/// Makes a system call for the program, which its signals may interrupt as ever.
///
/// # Safety
/// The program asked for it, with these arguments, or with others that it may access as well.
pub unsafe fn interruptible(number: u64, a: [u64; 6], frame: &Frame) -> u64 {
    let mask = frame.mask & !OURS;
    let mut own = 0;
    // SAFETY: the effects are those that the program wants. No caller has the lock, as any other
    // thread might wait for it.
    unsafe { routines::interruptible(number, a.as_ptr(), &raw const mask, &raw mut own) }
}

/// Makes a handler of ours that of a signal.
pub fn install(signal: u64, handler: Handler, flags: u64, mask: u64) -> u64 {
    let flags = flags | sys::SA_SIGINFO | sys::SA_RESTORER;
    let restorer = restorer as *const () as u64;
    set(signal, &Action { handler: handler as *const () as u64, flags, restorer, mask })
}

/// Puts the default action back.
pub fn reset(signal: u64) {
    set(signal, &Action::DEFAULT);
}

/// Sets an action: one of ours, or one for which the program's code is called by the kernel.
pub fn set(signal: u64, action: &Action) -> u64 {
    let action = core::ptr::from_ref(action) as u64;
    // SAFETY: the kernel reads the action. Its handler is one of ours, none at all, or the
    // program's choice.
    unsafe { sys::call(sys::RT_SIGACTION, [signal, action, 0, 8, 0, 0]) }
}

/// The program's action for a signal that is to be handled now.
pub fn take(signal: u64) -> Action {
    // SAFETY: only a signal of ours that another process has sent comes while the thread has the
    // lock, and what has it goes on behind the handler. `actions` and `handled` alone are used
    // here, which are plain numbers: no change of another part of the state is seen half done.
    let (mut held, was_mine) = unsafe { Held::interrupt() };
    let action = held.actions.get(signal as usize).copied();
    if let (Some(action), Some(slot)) = (action, held.actions.get_mut(signal as usize))
        && action.flags & sys::SA_RESETHAND != 0
    {
        *slot = Action { handler: 0, ..action };
        if OURS & bit(signal) == 0 {
            reset(signal);
        }
    }
    held.handled = true;
    held.hand_back(was_mine);
    action.unwrap_or(Action::DEFAULT)
}

/// An exception of the program's own: what it wants is done, as if we were not here.
pub fn deliver(signal: u64, info: &mut Info, frame: &mut Frame) {
    let action = take(signal);
    let was_sent = info.code <= 0;
    match action.handler {
        1 if was_sent => {}
        0 | 1 => {
            reset(signal);
            // A breakpoint's is behind us.
            if was_sent || signal == sys::SIGTRAP {
                sys::queue(signal, &info.words());
                frame.mask &= !bit(signal);
            }
            // Otherwise the same instruction fails again, with nothing to handle it.
        }
        handler => {
            let own = if action.flags & sys::SA_NODEFER == 0 { bit(signal) } else { 0 };
            let all = sys::set_mask((frame.mask | action.mask | own) & !OURS);
            call_handler(handler, signal, info, frame);
            sys::set_mask(all);
        }
    }
}

/// Calls a handler of the program.
pub fn call_handler(handler: u64, signal: u64, info: &mut Info, frame: &mut Frame) {
    // SAFETY: the program gave this address as that of a function with these arguments, or with
    // fewer, which this convention has called in the same way.
    let handler: Handler = unsafe { core::mem::transmute(handler) };
    handler(signal, info, frame);
}
