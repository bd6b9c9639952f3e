//! The way out of a stub whose instruction has failed: as if the program's own had.

use super::addresses::alias;
use super::frame::{Info, Registers};
use super::lock::Held;
use super::mappings::instruction_of;
use super::questions::ask;
use super::strings::{self, is_string};
use super::stubs::step_on;
use crate::layout::{Block, Site, ask, register};

/// Where an instruction in a stub has failed, it is as if the program's own had.
pub fn leave_stub(block: &Block, info: &mut Info, registers: &mut Registers) -> bool {
    let pc = registers.get(register::RIP);
    let Some(instruction) = instruction_of(pc) else { return false };
    // SAFETY: where the thread has the lock, it is in a stub, for which it was kept: no value of
    // that type is left to be used.
    let (held, was_mine) = unsafe { Held::interrupt() };
    let Some(site) = held.known(instruction).filter(|site| pc == copy_of(site)) else {
        held.hand_back(was_mine);
        return false;
    };
    if block.open.get() != 0 && is_string(&site) {
        strings::settle(&held, block, &site, registers);
    } else if site.borrowed != register::NONE {
        registers.set(site.borrowed as usize, block.spill.get());
    }
    registers.set(register::RIP, site.pc);
    block.inside.set(0);
    step_on(block, registers);
    let failed = info.address();
    info.set_address(if failed == pc { site.pc } else { program(&held, failed) });
    block.open.set(0);
    true
}

/// An instruction that was moved to make room for a jump has failed where it comes from.
pub fn leave_moved(info: &mut Info, registers: &mut Registers) {
    let pc = registers.get(register::RIP);
    if instruction_of(pc).is_some() {
        let held = Held::acquire();
        let [origin, ..] = ask(ask::ORIGIN, [pc, 0, 0, 0, 0, 0]);
        drop(held);
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

/// An address as the program has it.
pub fn program(held: &Held, address: u64) -> u64 {
    if held.region(alias(address)).is_some() { alias(address) } else { address }
}
