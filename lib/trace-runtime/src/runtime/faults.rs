//! The processor's exceptions: accesses to the files, breakpoints of ours, and what is the
//! program's own.

use core::sync::atomic::Ordering::SeqCst;

use super::actions::deliver;
use super::addresses::address;
use super::blocks::block;
use super::events::{fence, flush};
use super::exits::{leave_moved, leave_stub, program};
use super::frame::{Frame, Info, Registers};
use super::lock::Held;
use super::questions::give_up;
use super::routines::{copying, guard_failed, guarded, safe_read, unreadable};
use super::signals::finish_stepping;
use super::stubs::{find_callers, prepare, waits};
use super::{emulation, sys, threads, vectors};
use crate::layout::{Block, COUNTS, Site, how, register, stop, what};

const TRAP_TRACE: i32 = 2;
const SI_KERNEL: i32 = 0x80;

/// SIGSEGV and SIGBUS.
pub extern "C" fn on_fault(signal: u64, info: &mut Info, frame: &mut Frame) {
    let block = block();
    threads::rearm(block, frame);
    let pc = frame.registers.get(register::RIP);
    if [safe_read as *const () as u64, copying as *const () as u64].contains(&pc) {
        return frame.registers.set(register::RIP, unreadable as *const () as u64);
    }
    if info.code > 0 && block.guard.get() != 0 {
        // SAFETY: this thread has the lock, as it is inside `guarded`. What has failed there does
        // not go on.
        let (held, was_mine) = unsafe { Held::interrupt() };
        block.failed.set([signal, info.code as u64, program(&held, info.address())]);
        held.hand_back(was_mine);
        return frame.registers.set(register::RIP, guard_failed as *const () as u64);
    }
    if info.code > 0 && leave_stub(block, info, &mut frame.registers) {
        return deliver(signal, info, frame);
    }
    if info.code > 0 && signal == sys::SIGSEGV && access(block, info, frame) {
        return;
    }
    if info.code > 0 {
        // SAFETY: where this thread has the lock, our own code has failed in a way that is no
        // access of the program's, and does not go on.
        let (held, was_mine) = unsafe { Held::interrupt() };
        let site = held.known(pc);
        held.hand_back(was_mine);
        match site {
            Some(site) => frame.registers.set(register::RIP, site.pc),
            None => leave_moved(info, &mut frame.registers),
        }
    }
    deliver(signal, info, frame);
}

// Executes an access to a file, if it is one that the program may do, and delivers the signal where
// that has failed.
fn access(block: &Block, info: &mut Info, frame: &mut Frame) -> bool {
    let mut held = Held::acquire();
    let Some(region) = held.region(info.address()) else { return false };
    let site = held.failed(frame.registers.get(register::RIP));
    let wanted = if site.writes != 0 { sys::PROT_WRITE } else { sys::PROT_READ };
    if u64::from(region.protection) & wanted == 0 {
        return false;
    }
    frame.registers.set(register::RIP, site.pc);
    if go(held, block, &site, frame) {
        let [signal, code, address] = block.failed.get();
        (info.signal, info.code) = (signal as i32, code as i32);
        info.set_address(address);
        deliver(signal, info, frame);
    }
    true
}

/// SIGTRAP.
pub extern "C" fn on_trap(signal: u64, info: &mut Info, frame: &mut Frame) {
    let block = block();
    if info.code == TRAP_TRACE && block.stepping.get() != 0 {
        return finish_stepping(block, frame);
    }
    let pc = frame.registers.get(register::RIP).wrapping_sub(1);
    if info.code == SI_KERNEL {
        let held = Held::acquire();
        if let Some(site) = held.known(pc).filter(|site| site.patched != 0) {
            frame.registers.set(register::RIP, pc);
            if site.what == what::LOCKED {
                count(block, &site);
            }
            // What was replaced needs no more than a copy.
            go(held, block, &site, frame);
            return;
        }
    }
    deliver(signal, info, frame);
}

// As a stub does where a jump leads to it.
fn count(block: &Block, site: &Site) {
    let place = (block.own.get() + COUNTS) as *mut u64;
    // SAFETY: the thread's counts follow its block. Sites that are counted have smaller numbers
    // than there are counts: the recorder gives no others.
    unsafe { *place.add(site.id as usize) += 1 };
}

// Executes the program's instruction in its place. Returns whether it has failed, as `failed` of
// the block says.
fn go(mut held: Held, block: &Block, site: &Site, frame: &mut Frame) -> bool {
    find_callers(&mut held, block, site, &frame.registers);
    match site.what {
        what::SFENCE | what::MFENCE => {
            fence(&held, block, site);
            core::sync::atomic::fence(SeqCst);
            skip(site, &mut frame.registers);
        }
        what::CLFLUSH | what::CLFLUSHOPT | what::CLWB
            if held.region(address(site, &frame.registers)).is_some() =>
        {
            flush(&held, block, site, address(site, &frame.registers));
            skip(site, &mut frame.registers);
        }
        what::NOTHING => skip(site, &mut frame.registers),
        _ if site.how == how::NOT => give_up(stop::INSTRUCTION, site.pc, 0),
        _ if emulation::is_here(&held, site, &frame.registers) => {
            let before = frame.registers;
            // SAFETY: all three are references, which outlive the call. The thread has the lock,
            // and `held` is not used meanwhile.
            let failed = unsafe { guarded(block, site, frame) };
            if failed {
                frame.registers = before;
            }
            return failed;
        }
        _ => {
            if site.how == how::MASKED {
                block.open_mask.set(vectors::mask(site, &vectors::Saved::of(frame)));
            }
            prepare(&held, block, site, &mut frame.registers);
            frame.registers.set(register::RIP, site.run);
            if waits(site) {
                held.keep();
            } else {
                block.open.set(0);
            }
        }
    }
    false
}

fn skip(site: &Site, registers: &mut Registers) {
    registers.set(register::RIP, site.pc + u64::from(site.length));
}
