//! Which functions' addresses a function stores, and where, and which it returns: by following what
//! its registers and its stack may hold along every path.

use std::collections::{BTreeMap, BTreeSet};

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, OpKind};

use super::step::step;
use super::value::{Facts, Known, State};

/// Follows a function from its first byte.
pub fn follow(code: &[u8], address: u64, known: &Known) -> Facts {
    let decoder = Decoder::with_ip(64, code, address, DecoderOptions::NONE);
    let instructions: Vec<Instruction> = decoder.into_iter().collect();
    let blocks = blocks(&instructions);
    let mut states: BTreeMap<u64, State> = BTreeMap::from([(address, State::beginning())]);
    let mut facts = Facts::default();
    let mut info = InstructionInfoFactory::new();
    let mut waiting = BTreeSet::from([address]);
    while let Some(start) = waiting.pop_first() {
        let (Some(block), Some(state)) = (blocks.get(&start), states.get(&start)) else { continue };
        let mut state = state.clone();
        for instruction in &instructions[block.instructions.clone()] {
            step(instruction, &mut state, known, &mut facts, &mut info);
        }
        for next in &block.next {
            let is_more = match states.get_mut(next) {
                Some(before) => before.join(&state, *next),
                None => states.insert(*next, state.clone()).is_none(),
            };
            if is_more {
                waiting.insert(*next);
            }
        }
    }
    facts
}

struct Block {
    instructions: std::ops::Range<usize>,
    // Where it may go on.
    next: Vec<u64>,
}

// Code without a branch into or out of its middle, by its first address.
fn blocks(instructions: &[Instruction]) -> BTreeMap<u64, Block> {
    let mut starts: BTreeSet<u64> = instructions.first().map(Instruction::ip).into_iter().collect();
    let mut reached = starts.clone();
    for instruction in instructions {
        if let Some(target) = target(instruction) {
            starts.insert(target);
            reached.insert(target);
        }
        if ends(instruction) {
            starts.insert(instruction.next_ip());
            if goes_on(instruction) {
                reached.insert(instruction.next_ip());
            }
        }
    }
    // It is not known where a jump through a table goes: to all that nothing else leads to.
    let unreached: Vec<u64> = starts.difference(&reached).copied().collect();
    let mut blocks = BTreeMap::new();
    let mut first = 0;
    for (number, instruction) in instructions.iter().enumerate() {
        let ends = ends(instruction);
        if !ends && !starts.contains(&instruction.next_ip()) && number + 1 < instructions.len() {
            continue;
        }
        let mut next: Vec<u64> = target(instruction).into_iter().collect();
        if !ends || goes_on(instruction) {
            next.push(instruction.next_ip());
        }
        if instruction.flow_control() == FlowControl::IndirectBranch {
            next.extend(&unreached);
        }
        blocks.insert(instructions[first].ip(), Block { instructions: first..number + 1, next });
        first = number + 1;
    }
    blocks
}

fn ends(instruction: &Instruction) -> bool {
    !matches!(
        instruction.flow_control(),
        FlowControl::Next
            | FlowControl::Call
            | FlowControl::IndirectCall
            | FlowControl::XbeginXabortXend
    )
}

fn goes_on(instruction: &Instruction) -> bool {
    instruction.flow_control() == FlowControl::ConditionalBranch
}

fn target(instruction: &Instruction) -> Option<u64> {
    let is_branch = matches!(
        instruction.flow_control(),
        FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch
    );
    (is_branch && instruction.op0_kind() == OpKind::NearBranch64)
        .then(|| instruction.near_branch64())
}
