//! Who called the function that an instruction stands in: the addresses that its stack returns to, innermost first.
//!
//! The rules for finding them are those of the tables for unwinding, which the recorder reads; each is asked for once.

use crate::layout::{Block, MOST_FRAMES, RUNTIME, SHARED, ask, frame, register};
use crate::runtime::entry::safe_read;
use crate::runtime::questions::ask;
use crate::runtime::state::state;
use crate::runtime::stubs::Registers;

const MOST_RULES: usize = 1 << 14;
const MOST_STACKS: usize = 1 << 15;
const MOST_CALLS: usize = 64;

#[derive(Clone, Copy)]
struct Rule {
    pc: u64,
    /// One of [`frame`].
    kind: u64,
    /// From the register to the frame's address.
    offset: u64,
    /// From there to where the caller's `rbp` is; 0 where it is still in the register.
    base: u64,
}

/// What is known of stacks, by hash.
pub struct Known {
    rules: [Rule; MOST_RULES],
    rule_count: usize,
    stacks: [(u64, u32); MOST_STACKS],
    stack_count: usize,
    // Instructions that make system calls, and their sites' numbers: the last one of each hash.
    calls: [(u64, u32); MOST_CALLS],
}

impl Known {
    pub const NOTHING: Self = Self {
        rules: [Rule { pc: 0, kind: 0, offset: 0, base: 0 }; MOST_RULES],
        rule_count: 0,
        stacks: [(0, 0); MOST_STACKS],
        stack_count: 0,
        calls: [(0, 0); MOST_CALLS],
    };

    /// Other code may lie at the same addresses by now.
    pub fn forget(&mut self) {
        if self.rule_count > 0 {
            self.rules.fill(Rule { pc: 0, kind: 0, offset: 0, base: 0 });
            self.rule_count = 0;
        }
        if self.stack_count > 0 {
            self.stacks.fill((0, 0));
            self.stack_count = 0;
        }
        self.calls.fill((0, 0));
    }

    fn call(&mut self, pc: u64) -> u32 {
        let known = &mut self.calls[mix(pc) as usize % MOST_CALLS];
        if known.0 != pc {
            let [number, ..] = ask(ask::CALL, [pc, 0, 0, 0, 0, 0]);
            *known = (pc, number as u32);
        }
        known.1
    }

    fn rule(&mut self, pc: u64) -> Rule {
        let mut at = mix(pc) as usize % MOST_RULES;
        loop {
            let rule = self.rules[at];
            if rule.pc == pc {
                return rule;
            }
            if rule.pc == 0 {
                break;
            }
            at = (at + 1) % MOST_RULES;
        }
        if self.rule_count > MOST_RULES / 2 {
            self.forget();
            at = mix(pc) as usize % MOST_RULES;
        }
        let [kind, offset, base, _] = ask(ask::FRAME, [pc, 0, 0, 0, 0, 0]);
        self.rules[at] = Rule { pc, kind, offset, base };
        self.rule_count += 1;
        self.rules[at]
    }

    fn stack(&mut self, hash: u64, count: u64) -> u32 {
        let mut at = hash as usize % MOST_STACKS;
        loop {
            let (known, number) = self.stacks[at];
            if known == hash {
                return number;
            }
            if known == 0 {
                break;
            }
            at = (at + 1) % MOST_STACKS;
        }
        if self.stack_count > MOST_STACKS / 2 {
            self.forget();
            at = hash as usize % MOST_STACKS;
        }
        let [number, ..] = ask(ask::CALLERS, [count, 0, 0, 0, 0, 0]);
        self.stacks[at] = (hash, number as u32);
        self.stack_count += 1;
        number as u32
    }
}

const fn mix(value: u64) -> u64 {
    let value = value.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    value ^ value >> 32
}

// What lies at an address of the stack, if it can be read.
fn read(address: u64) -> Option<u64> {
    if state().region(address).is_some() {
        return None;
    }
    let mut value = 0;
    // SAFETY: where nothing is mapped, a handler has it return false.
    unsafe { safe_read(address, &mut value) }.then_some(value)
}

/// Finds the callers of the function that `pc` stands in; their number is in `block.callers` afterwards. The caller
/// holds the lock.
pub fn find(block: &mut Block, registers: &Registers, pc: u64) {
    let known = &mut state().callers;
    let (mut pc, mut stack, mut base) =
        (pc, registers.get(register::RSP), registers.get(register::RBP));
    let (mut count, mut hash) = (0, 1u64);
    while count < MOST_FRAMES {
        let Rule { kind, offset, base: saved, .. } = known.rule(pc);
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
        let Some(to) = read(frame.wrapping_sub(8)).filter(|to| *to != 0) else { break };
        // Handlers are called from our code: for the program, they have no caller.
        if (RUNTIME..SHARED).contains(&to) {
            break;
        }
        if saved != 0 {
            let Some(value) = read(frame.wrapping_add(saved)) else { break };
            base = value;
        }
        block.frames[count] = to;
        count += 1;
        hash = mix(hash.rotate_left(5) ^ to);
        // A call is before the place that it returns to.
        (pc, stack) = (to - 1, frame);
    }
    block.callers = if count == 0 { 0 } else { known.stack(hash.max(1), count as u64) };
}

/// The site of the system call that a thread is in, whose callers are in `block.callers` afterwards. The caller holds
/// the lock.
pub fn of_call(block: &mut Block, registers: &Registers) -> u32 {
    const LENGTH: u64 = 2;
    let pc = registers.get(register::RIP) - LENGTH;
    find(block, registers, pc);
    state().callers.call(pc)
}
