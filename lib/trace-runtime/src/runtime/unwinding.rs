//! What is known of stacks: the rules for finding callers, and the stacks that were found before.
//!
//! The rules are those of the tables for unwinding, which the recorder reads. Each is asked for
//! once.

use super::questions::ask;
use crate::layout::ask;

const MOST_RULES: usize = 1 << 14;
const MOST_STACKS: usize = 1 << 15;
const MOST_CALLS: usize = 64;

/// How the caller of what stands at an address is found.
#[derive(Clone, Copy)]
pub struct Rule {
    pc: u64,
    /// One of [`crate::layout::frame`].
    pub kind: u64,
    /// From the register to the frame's address.
    pub offset: u64,
    /// From there to where the caller's `rbp` is; 0 where it is still in the register.
    pub base: u64,
}

const NO_RULE: Rule = Rule { pc: 0, kind: 0, offset: 0, base: 0 };

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
        rules: [NO_RULE; MOST_RULES],
        rule_count: 0,
        stacks: [(0, 0); MOST_STACKS],
        stack_count: 0,
        calls: [(0, 0); MOST_CALLS],
    };

    /// Other code may lie at the same addresses by now.
    pub fn forget(&mut self) {
        if self.rule_count > 0 {
            self.rules.fill(NO_RULE);
            self.rule_count = 0;
        }
        if self.stack_count > 0 {
            self.stacks.fill((0, 0));
            self.stack_count = 0;
        }
        self.calls.fill((0, 0));
    }

    /// The number of the site of a system call.
    pub fn call(&mut self, pc: u64) -> u32 {
        let known = &mut self.calls[mix(pc) as usize % MOST_CALLS];
        if known.0 != pc {
            let [number, ..] = ask(ask::CALL, [pc, 0, 0, 0, 0, 0]);
            *known = (pc, number as u32);
        }
        known.1
    }

    /// The rule for what stands at an address.
    pub fn rule(&mut self, pc: u64) -> Rule {
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

    /// The number of the stack whose frames, as many as `count`, are in the thread's block.
    pub fn stack(&mut self, hash: u64, count: u64) -> u32 {
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

/// Spreads what is near over a hash.
pub const fn mix(value: u64) -> u64 {
    let value = value.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    value ^ value >> 32
}
