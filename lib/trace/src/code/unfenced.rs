//! Non-temporal stores that no fence follows within their function.

use std::collections::BTreeSet;

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::code::Operation;

// Longer functions are not followed.
const LONGEST: usize = 1 << 20;

/// What is known of a file's code: where functions begin, and which of them have a fence.
#[derive(Debug, Default)]
pub struct Known {
    /// Beginnings of functions.
    pub functions: BTreeSet<u64>,
    /// Beginnings of those that have a fence.
    pub with_fence: BTreeSet<u64>,
    /// Whether calls and jumps lead where they seem to: not before an object file is linked.
    pub is_linked: bool,
}

// Where control goes from an instruction.
struct Step {
    operation: Option<Operation>,
    next: Vec<u64>,
    // It leaves the function, or calls another one.
    leaves: bool,
    // What it calls, or jumps to outside of the function, may have a fence.
    may_fence: bool,
}

/// How many non-temporal stores of a function have no fence on any path from them out of it. The
/// code begins at `address`. What it calls has a fence if that function has one anywhere, or is not
/// known.
pub fn unfenced(code: &[u8], address: u64, bits: u32, known: &Known) -> u64 {
    if code.len() > LONGEST {
        return 0;
    }
    let range = address..address + code.len() as u64;
    let mut steps: FxHashMap<u64, Step> = FxHashMap::default();
    let mut decoder = Decoder::with_ip(bits, code, address, DecoderOptions::MPX);
    let mut instruction = Instruction::default();
    while decoder.can_decode() {
        decoder.decode_out(&mut instruction);
        let step = step(&instruction, &range, known);
        steps.insert(instruction.ip(), step);
    }
    let stores = steps.iter().filter(|(_, step)| step.operation == Some(Operation::NonTemporal));
    stores.filter(|(at, _)| is_unfenced(**at, &steps)).count() as u64
}

fn step(instruction: &Instruction, range: &std::ops::Range<u64>, known: &Known) -> Step {
    let operation = Operation::of(instruction);
    let mut step = Step { operation, next: Vec::new(), leaves: false, may_fence: false };
    let target = instruction.near_branch_target();
    let behind = instruction.next_ip();
    let may_fence = |target: u64| {
        !known.is_linked || !known.functions.contains(&target) || known.with_fence.contains(&target)
    };
    let jump =
        |step: &mut Step| match range.contains(&target) && (known.is_linked || target != behind) {
            true => step.next.push(target),
            // To another function, or not known before the file is linked.
            false => (step.leaves, step.may_fence) = (true, may_fence(target)),
        };
    match instruction.flow_control() {
        FlowControl::Next => step.next.push(behind),
        FlowControl::UnconditionalBranch => jump(&mut step),
        FlowControl::ConditionalBranch | FlowControl::XbeginXabortXend => {
            jump(&mut step);
            step.next.push(behind);
        }
        FlowControl::Call => {
            step.may_fence = may_fence(target);
            step.next.push(behind);
        }
        FlowControl::IndirectCall => {
            step.may_fence = true;
            step.next.push(behind);
        }
        FlowControl::IndirectBranch => step.may_fence = true,
        FlowControl::Return => step.leaves = true,
        // What raises an error does not come back.
        FlowControl::Interrupt | FlowControl::Exception => {}
    }
    step
}

// Whether it can be left from there, and no path meets a fence.
fn is_unfenced(store: u64, steps: &FxHashMap<u64, Step>) -> bool {
    let mut seen = FxHashSet::default();
    let mut open: Vec<u64> = steps[&store].next.clone();
    let mut leaves = steps[&store].leaves;
    while let Some(at) = open.pop() {
        if !seen.insert(at) {
            continue;
        }
        // It runs into the next function, or into the middle of an instruction.
        let Some(step) = steps.get(&at) else { return false };
        let is_fence = step.operation.is_some_and(Operation::is_fence_of_stores);
        if is_fence || step.may_fence {
            return false;
        }
        leaves |= step.leaves;
        open.extend(&step.next);
    }
    leaves
}

#[cfg(test)]
mod tests {
    use super::*;

    const STORE: [u8; 3] = [0x0f, 0xc3, 0x07]; // movnti [rdi], eax
    const SFENCE: [u8; 3] = [0x0f, 0xae, 0xf8];
    const LOCKED: [u8; 4] = [0xf0, 0x83, 0x07, 0x01]; // lock add dword [rdi], 1
    const RET: [u8; 1] = [0xc3];

    fn known(is_linked: bool) -> Known {
        Known {
            functions: BTreeSet::from([0x1000, 0x2000, 0x3000]),
            with_fence: BTreeSet::from([0x3000]),
            is_linked,
        }
    }

    fn of(parts: &[&[u8]]) -> u64 {
        unfenced(&parts.concat(), 0x1000, 64, &known(true))
    }

    // A call or jump at an offset of the function.
    fn to(opcode: u8, offset: u64, target: u64) -> Vec<u8> {
        let relative = target.wrapping_sub(0x1000 + offset + 5) as i32;
        [&[opcode][..], &relative.to_le_bytes()].concat()
    }

    #[test]
    fn a_store_is_unfenced_if_no_path_out_has_a_fence() {
        assert_eq!(of(&[&STORE, &RET]), 1);
        assert_eq!(of(&[&STORE, &STORE, &RET]), 2);
        assert_eq!(of(&[&STORE, &SFENCE, &RET]), 0);
        assert_eq!(of(&[&STORE, &LOCKED, &RET]), 0);
        // The fence comes before.
        assert_eq!(of(&[&SFENCE, &STORE, &RET]), 1);
        assert_eq!(of(&[&SFENCE, &STORE, &SFENCE, &STORE, &RET]), 1);
        // On one path of two: je over the fence.
        assert_eq!(of(&[&STORE, &[0x74, 3], &SFENCE, &RET]), 0);
        // A loop of stores, and then out.
        assert_eq!(of(&[&STORE, &[0x75, 0xfb], &RET]), 1);
        // It never comes out: jmp to itself, or ud2.
        assert_eq!(of(&[&STORE, &[0xeb, 0xfe]]), 0);
        assert_eq!(of(&[&STORE, &[0x0f, 0x0b]]), 0);
        assert_eq!(of(&[&SFENCE, &RET]), 0);
    }

    #[test]
    fn what_is_called_may_have_a_fence() {
        let (call, jump) = (|target| to(0xe8, 3, target), |target| to(0xe9, 3, target));
        assert_eq!(of(&[&STORE, &call(0x3000), &RET]), 0);
        assert_eq!(of(&[&STORE, &call(0x2000), &RET]), 1);
        assert_eq!(of(&[&STORE, &jump(0x3000)]), 0);
        assert_eq!(of(&[&STORE, &jump(0x2000)]), 1);
        // Not known: elsewhere, or by a pointer.
        assert_eq!(of(&[&STORE, &call(0x9000), &RET]), 0);
        assert_eq!(of(&[&STORE, &[0xff, 0xd0], &RET]), 0);
        assert_eq!(of(&[&STORE, &[0xff, 0xe0]]), 0);
        // Before it is linked, a call seems to lead behind itself.
        let code = [&STORE[..], &[0xe8, 0, 0, 0, 0], &RET].concat();
        assert_eq!(unfenced(&code, 0x1000, 64, &known(false)), 0);
        assert_eq!(unfenced(&[&STORE[..], &RET].concat(), 0x1000, 64, &known(false)), 1);
    }
}
