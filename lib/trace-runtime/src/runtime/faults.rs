//! The processor's exceptions: accesses to the files, breakpoints of ours, and what is the program's own.

use crate::layout::{Block, Site, ask, how, register, what};
use crate::runtime::entry::{copying, guard_failed, guarded, safe_read, unreadable};
use crate::runtime::mappings::instruction_of;
use crate::runtime::questions::ask;
use crate::runtime::ring::{block, is_mine, lock, unlock};
use crate::runtime::signals::{Info, deliver, finish_stepping, registers_of, step_on};
use crate::runtime::state::state;
use crate::runtime::stubs::find_callers;
use crate::runtime::stubs::{Registers, address, alias, fence, flush, is_string, prepare, waits};
use crate::runtime::{emulation, sys, vectors};

const TRAP_TRACE: i32 = 2;
const SI_KERNEL: i32 = 0x80;

/// SIGSEGV and SIGBUS.
pub extern "C" fn on_fault(signal: u64, info: &mut Info, frame: *mut u64) {
    let block = block();
    crate::runtime::threads::rearm(block, frame);
    let mut registers = registers_of(frame);
    let pc = registers.get(register::RIP);
    if [safe_read as *const () as u64, copying as *const () as u64].contains(&pc) {
        return registers.set(register::RIP, unreadable as *const () as u64);
    }
    if info.code > 0 && block.guard != 0 {
        block.failed = [signal, info.code as u64, program(info.address())];
        return registers.set(register::RIP, guard_failed as *const () as u64);
    }
    if info.code > 0 && leave_stub(block, info, &mut registers) {
        return deliver(signal, info, frame);
    }
    if info.code > 0 && signal == sys::SIGSEGV {
        lock(block);
        if let Some(region) = state().region(info.address()) {
            let site = state().failed(pc);
            let wanted = if site.writes != 0 { sys::PROT_WRITE } else { sys::PROT_READ };
            if u64::from(region.protection) & wanted != 0 {
                registers.set(register::RIP, site.pc);
                if go(block, site, &mut registers) {
                    let [signal, code, address] = block.failed;
                    (info.signal, info.code) = (signal as i32, code as i32);
                    info.set_address(address);
                    deliver(signal, info, frame);
                }
                return;
            }
        }
        unlock();
    }
    if info.code > 0
        && let Some(site) = state().known(pc)
    {
        registers.set(register::RIP, site.pc);
    } else if info.code > 0 {
        leave_moved(info, &mut registers);
    }
    deliver(signal, info, frame);
}

/// Where an instruction in a stub has failed, it is as if the program's own had.
pub fn leave_stub(block: &mut Block, info: &mut Info, registers: &mut Registers) -> bool {
    let pc = registers.get(register::RIP);
    let Some(instruction) = instruction_of(pc) else { return false };
    let held = is_mine(block);
    if !held {
        lock(block);
    }
    let site = state().known(instruction);
    let is_it = site.is_some_and(|site| pc == copy_of(site));
    if let Some(site) = site.filter(|_| is_it) {
        if block.open != 0 && is_string(site) {
            emulation::settle_string(block, site, registers);
        } else if site.borrowed != register::NONE {
            registers.set(site.borrowed as usize, block.spill);
        }
        registers.set(register::RIP, site.pc);
        block.inside = 0;
        step_on(block, registers);
        if info.address() == pc {
            info.set_address(site.pc);
        } else {
            info.set_address(program(info.address()));
        }
        block.open = 0;
    }
    if is_it || !held {
        unlock();
    }
    is_it
}

/// One that was moved to make room for a jump has failed where it comes from.
pub fn leave_moved(info: &mut Info, registers: &mut Registers) {
    let pc = registers.get(register::RIP);
    if instruction_of(pc).is_some() {
        lock(block());
        let [origin, ..] = ask(ask::ORIGIN, [pc, 0, 0, 0, 0, 0]);
        unlock();
        registers.set(register::RIP, origin);
        if info.address() == pc {
            info.set_address(origin);
        }
    }
}

// Where a stub has the program's instruction: behind what loads its address.
fn copy_of(site: &Site) -> u64 {
    site.run + if site.borrowed == register::NONE { 0 } else { 18 }
}

// An address as the program has it.
fn program(address: u64) -> u64 {
    if state().region(alias(address)).is_some() { alias(address) } else { address }
}

/// SIGTRAP.
pub extern "C" fn on_trap(signal: u64, info: &mut Info, frame: *mut u64) {
    let block = block();
    let mut registers = registers_of(frame);
    if info.code == TRAP_TRACE && block.stepping != 0 {
        return finish_stepping(block, frame);
    }
    let pc = registers.get(register::RIP).wrapping_sub(1);
    if info.code == SI_KERNEL {
        lock(block);
        if let Some(site) = state().known(pc).filter(|site| site.patched != 0) {
            registers.set(register::RIP, pc);
            if site.what == what::LOCKED {
                count(block, site);
            }
            // What was replaced needs no more than a copy.
            let _ = go(block, site, &mut registers);
            return;
        }
        unlock();
    }
    deliver(signal, info, frame);
}

// As a stub does where a jump leads to it.
fn count(block: &Block, site: &Site) {
    let place = (block.own + crate::layout::COUNTS) as *mut u64;
    // SAFETY: sites have smaller numbers than there are counts.
    unsafe { *place.add(site.id as usize) += 1 };
}

// Executes the program's instruction in its place. Returns whether it has failed, as `failed` of the block says. The
// caller holds the lock.
fn go(block: &mut Block, site: &Site, registers: &mut Registers) -> bool {
    find_callers(block, site, registers);
    match site.what {
        what::SFENCE | what::MFENCE => {
            fence(block, site);
            core::sync::atomic::fence(core::sync::atomic::Ordering::SeqCst);
            skip(site, registers);
        }
        what::CLFLUSH | what::CLFLUSHOPT | what::CLWB
            if state().region(address(site, registers)).is_some() =>
        {
            flush(block, site, address(site, registers));
            skip(site, registers);
        }
        what::NOTHING => skip(site, registers),
        _ if site.how == how::NOT => {
            crate::runtime::questions::give_up(crate::layout::stop::INSTRUCTION, site.pc, 0);
        }
        _ if emulation::is_here(site, registers) => {
            let mut before = [0; 18];
            for (at, one) in before.iter_mut().enumerate() {
                *one = registers.get(at);
            }
            // SAFETY: the block, the site and the registers outlive the call.
            let failed = unsafe { guarded(block, site, registers.first()) };
            if failed {
                for (at, one) in before.into_iter().enumerate() {
                    registers.set(at, one);
                }
            }
            unlock();
            return failed;
        }
        _ => {
            if site.how == how::MASKED {
                block.open_mask = vectors::mask(site, registers);
            }
            prepare(block, site, registers);
            registers.set(register::RIP, site.run);
            if !waits(site) {
                block.open = 0;
                unlock();
            }
        }
    }
    false
}

fn skip(site: &Site, registers: &mut Registers) {
    registers.set(register::RIP, site.pc + u64::from(site.length));
    unlock();
}
