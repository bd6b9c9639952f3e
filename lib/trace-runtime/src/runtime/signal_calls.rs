//! System calls about signals: the program gets what it asks for, as far as it can tell.

use super::actions::{install, interruptible, set};
use super::blocks::block;
use super::buffers::{put, read};
use super::frame::{Frame, OURS, bit};
use super::lock::Held;
use super::signals::on_signal;
use super::sys::{self, Action};
use super::threads;
use crate::layout::register;

/// `rt_sigaction`.
///
/// # Safety
/// The program has made the call, with these arguments.
pub unsafe fn action(a: [u64; 6]) -> u64 {
    let [signal, new, old, size, ..] = a;
    if size != 8 || signal == 0 || signal > 64 {
        // SAFETY: the program's own call, which the kernel refuses.
        return unsafe { sys::call(sys::RT_SIGACTION, a) };
    }
    let wanted = if new == 0 { None } else { read::<Action>(new) };
    if new != 0 && wanted.is_none() {
        return sys::error(sys::EFAULT);
    }
    let mut held = Held::acquire();
    let slot = &mut held.actions[signal as usize];
    let was = *slot;
    let mut result = 0;
    if let Some(wanted) = wanted {
        if OURS & bit(signal) == 0 {
            result = if wanted.handler > 1 {
                let flags = wanted.flags & !sys::SA_RESETHAND;
                install(signal, on_signal, flags, wanted.mask & !OURS)
            } else {
                set(signal, &wanted)
            };
        }
        if result == 0 {
            *slot = wanted;
        }
    }
    drop(held);
    if result == 0 { put(old, was) } else { result }
}

/// `rt_sigprocmask`.
pub fn mask(a: [u64; 6], frame: &mut Frame) -> u64 {
    let [how, new, old, size, ..] = a;
    if size != 8 || new != 0 && how > 2 {
        return sys::error(sys::EINVAL);
    }
    let was = frame.mask;
    if new != 0 {
        let Some(change) = read::<u64>(new) else { return sys::error(sys::EFAULT) };
        let wanted = match how {
            0 => was | change,
            1 => was & !change,
            _ => change,
        };
        frame.mask = wanted & !OURS;
    }
    put(old, was)
}

/// `rt_sigsuspend`.
pub fn suspend(a: [u64; 6], frame: &Frame) -> u64 {
    // The handler of the signal that ends it runs here, before the program's mask is back: it may
    // be blocked there.
    let Some(wanted) = read::<u64>(a[0]) else { return sys::error(sys::EFAULT) };
    let wanted = wanted & !OURS;
    let arguments = [(&raw const wanted) as u64, a[1], 0, 0, 0, 0];
    // SAFETY: the kernel reads the mask, which is ours, and waits for a signal.
    unsafe { interruptible(sys::RT_SIGSUSPEND, arguments, frame) }
}

/// `sigaltstack`.
pub fn stack(a: [u64; 6], frame: &mut Frame) -> u64 {
    const SMALLEST: u64 = 2048;
    let [new, old, ..] = a;
    let block = block();
    let [at, flags, size] = block.signal_stack.get();
    let is_in_use = threads::is_on_signal_stack(block, frame.registers.get(register::RSP));
    let disarms = flags & sys::SS_AUTODISARM != 0;
    let was = match (block.has_signal_stack.get() != 0, is_in_use) {
        (false, _) => [0, sys::SS_DISABLE, 0],
        (true, true) if disarms => [0, sys::SS_DISABLE, 0],
        (true, true) => [at, sys::SS_ONSTACK, size],
        (true, false) => [at, flags & sys::SS_AUTODISARM, size],
    };
    if new != 0 {
        let Some(wanted) = read::<[u64; 3]>(new) else { return sys::error(sys::EFAULT) };
        if is_in_use && !disarms {
            return sys::error(sys::EPERM);
        }
        // Four bytes of flags, and four of nothing.
        let wanted = [wanted[0], wanted[1] & 0xffff_ffff, wanted[2]];
        let off = wanted[1] & sys::SS_DISABLE != 0;
        if !off && wanted[2] < SMALLEST {
            return sys::error(sys::ENOMEM);
        }
        block.has_signal_stack.set(u32::from(!off));
        block.signal_stack.set(wanted);
        frame.stack = threads::signal_stack(block);
    }
    put(old, was)
}
