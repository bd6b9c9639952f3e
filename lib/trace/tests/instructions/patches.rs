//! Fences, flushes and locked instructions, which are replaced in a program's code, among short
//! instructions that make room for the jump, and jumps to right behind them.

use std::fmt::Write;

use iced_x86::{Code, Mnemonic};

use crate::addresses::CODE;
use crate::executor::{Executor, Where};
use crate::maker::{Maker, Sequence};
use crate::random::Random;
use crate::{forms, number, same_as_natively};

// Instructions without memory, of one to four bytes.
fn short(random: &mut Random) -> Vec<u8> {
    let registers = random.next() as u8 | 0xc0;
    match random.below(10) {
        0 => vec![0x90],
        1 => vec![0xf5],
        2 => vec![0x98],
        3 => vec![0x89, registers],
        4 => vec![0x01, registers],
        5 => vec![0x48, 0x31, registers],
        6 => vec![0x0f, 0x94, registers],
        // lea eax, [rip + 9], as an address tells where it runs
        7 => vec![0x8d, 0x05, 9, 0, 0, 0],
        8 => vec![0xeb, 0],
        _ => vec![0x0f, 0xc8],
    }
}

fn is_wanted(code: Code) -> bool {
    let op = code.op_code();
    let flush =
        matches!(code.mnemonic(), Mnemonic::Clflush | Mnemonic::Clflushopt | Mnemonic::Clwb);
    flush || op.can_use_lock_prefix()
}

fn sequence(seed: u64, at: u64, wanted: &[Code], all: &[Code]) -> Sequence {
    let mut random = Random(seed);
    let mut maker = Maker::new(seed, at);
    let mut forms = Vec::new();
    for _ in 0..1 + random.below(4) {
        maker.skip = if random.once_in(2) { Some(random.once_in(2)) } else { None };
        let code = match random.below(4) {
            0 => random.of(&[Code::Sfence, Code::Mfence]),
            _ => random.of(wanted),
        };
        if (0..20).any(|_| maker.add(code)) {
            forms.push(code);
        }
        maker.skip = None;
        for _ in 0..random.below(4) {
            if random.once_in(4) {
                let code = random.of(all);
                if maker.add(code) {
                    forms.push(code);
                }
            } else {
                maker.code.extend(short(&mut random));
            }
        }
    }
    Sequence { seed, at, code: maker.code, constants: maker.constants, forms }
}

fn assembly(sequences: &[Sequence]) -> String {
    let mut text = ".section .sequences, \"ax\", @progbits\n".to_owned();
    for (number, one) in sequences.iter().enumerate() {
        let bytes: Vec<String> = one.code.iter().map(u8::to_string).collect();
        let _ = writeln!(text, ".type s{number}, @function\ns{number}: .cfi_startproc");
        let _ = writeln!(text, ".byte {}\n.byte 0xe9\n.long finished - . - 4", bytes.join(","));
        let _ = writeln!(text, ".cfi_endproc\n.size s{number}, . - s{number}");
    }
    text + ".section .note.GNU-stack,\"\",@progbits\n"
}

/// Runs functions made of a seed: of what is replaced before it runs, or of all that accesses
/// memory, often enough to be replaced.
pub fn compare(seed: u64, count: usize, often: bool) {
    let all = forms::forms();
    let wanted: Vec<Code> = all.iter().copied().filter(|code| often || is_wanted(*code)).collect();
    let mut random = Random(seed);
    let (mut made, mut at) = (Vec::new(), CODE);
    for _ in 0..count {
        let one = sequence(random.next(), at, &wanted, &all);
        at += one.code.len() as u64 + 5;
        made.push(one);
    }
    let mut executor = Executor::with(&assembly(&made));
    if often {
        executor.times = 20;
    }
    same_as_natively(&executor, &made, Where::Program);
    let fences = made
        .iter()
        .flat_map(|one| &one.forms)
        .filter(|code| matches!(code, Code::Sfence | Code::Mfence));
    assert!(fences.count() > count / 4);
}

#[test]
fn replaced_instructions_do_what_they_do_natively() {
    compare(number("RINGFENCE_SEED", 1), number("RINGFENCE_COUNT", 1500) as usize, false);
}

#[test]
fn what_is_replaced_as_it_runs_does_what_it_does_natively() {
    compare(number("RINGFENCE_SEED", 1), number("RINGFENCE_COUNT", 400) as usize, true);
}
