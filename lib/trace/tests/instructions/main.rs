//! Recording does to no instruction anything that the processor does not: random sequences of every
//! form that accesses memory run natively and recorded, with the same registers, flags and memory
//! afterwards.
//!
//! Sequences are made of `RINGFENCE_SEED`, as many as `RINGFENCE_COUNT` says. `RINGFENCE_ONLY` runs
//! one of them alone, by its number, and `RINGFENCE_LOADS` has its loads recorded. Not compared are
//! the addresses of its last instruction that x87 keeps: in a recorded program they are those of
//! the copy.

mod addresses;
mod events;
mod executor;
mod forms;
mod maker;
mod operands;
mod patches;
mod random;
mod special;
mod unsupported;

use executor::{Became, Executor, Where};
use iced_x86::Code;
use maker::{Maker, Sequence};
use random::Random;
use ringfence_trace::events::Ended;

/// Sequences of one process.
const BATCH: usize = 10_000;

fn sequences(seed: u64, count: usize, most: u64, all: &[Code], place: Where) -> Vec<Sequence> {
    let mut random = Random(seed);
    let (mut made, mut at) = (Vec::new(), addresses::CODE);
    for number in 0..count {
        let length = 1 + random.below(most);
        // Each form comes first once in a while.
        let first = all[(seed as usize).wrapping_mul(BATCH).wrapping_add(number) % all.len()];
        let forms: Vec<Code> =
            std::iter::once(first).chain((1..length).map(|_| random.of(all))).collect();
        let one = Maker::sequence(random.next(), at, &forms);
        at += if place == Where::Same { 0 } else { one.code.len() as u64 };
        made.push(one);
    }
    made
}

fn difference(
    executor: &Executor,
    sequence: &Sequence,
    number: usize,
    loads: bool,
    became: [&Became; 2],
) -> String {
    let bytes: Vec<String> = sequence.code.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut text = format!(
        "sequence {number} at {:#x}: {:?}\n{}\n",
        sequence.at,
        sequence.forms,
        bytes.join(" ")
    );
    let [native, other] = became;
    for at in 0..16 {
        if native.registers[at] != other.registers[at] {
            text +=
                &format!("register {at}: {:#x} {:#x}\n", native.registers[at], other.registers[at]);
        }
    }
    text += &format!(
        "flags {:#x} {:#x}\nfailed {:x?} {:x?}\n",
        native.flags, other.flags, native.failed, other.failed
    );
    executor.natively(number, 1);
    let native = executor.state();
    executor.recorded(number, 1, loads);
    let other = executor.state();
    let different = (0..native.len()).filter(|at| native[*at] != other[*at]).take(16);
    for at in different {
        text +=
            &format!("state at {at:#x} (file from 0xa88): {:#x} {:#x}\n", native[at], other[at]);
    }
    text
}

fn compare(seed: u64, count: usize, most: u64, place: Where) {
    let made = sequences(seed, count, most, &forms::forms(), place);
    same_as_natively(&Executor::new(), &made, place);
}

/// Runs sequences natively and in both modes of recording, and compares everything.
fn same_as_natively(executor: &Executor, made: &[Sequence], place: Where) {
    let count = made.len();
    executor.write(made, place);
    if let Ok(only) = std::env::var("RINGFENCE_ONLY") {
        let (at, loads) =
            (only.parse().expect("a number"), std::env::var("RINGFENCE_LOADS").is_ok());
        let native = executor.natively(at, 1);
        let (_, recorded, _) = executor.recorded(at, 1, loads);
        return println!(
            "{}",
            difference(executor, &made[at], at, loads, [&native[0], &recorded[0]])
        );
    }
    let native = executor.natively(0, count);
    let failed = native.iter().filter(|one| one.failed[0] != 0).count();
    println!("{count} sequences, {failed} of them fail");
    assert!(failed < count / 10, "{failed} of {count} fail natively");
    for loads in [false, true] {
        let (outcome, recorded, reader) = executor.recorded(0, count, loads);
        assert_eq!((outcome.ended, recorded.len()), (Ended::Exited(0), count), "loads: {loads}");
        let wrong: Vec<usize> = (0..count).filter(|at| native[*at] != recorded[*at]).collect();
        if let Some(at) = wrong.first() {
            let told = difference(executor, &made[*at], *at, loads, [&native[*at], &recorded[*at]]);
            let forms: Vec<_> = wrong.iter().take(20).map(|at| (at, &made[*at].forms)).collect();
            panic!("loads: {loads}: {} of {count} differ: {told}{forms:?}", wrong.len());
        }
        let reader = reader.expect("a recording that has ended by itself");
        let is_patched = place == Where::Program;
        let seen = events::check(&reader, made, &native, loads, is_patched, executor.initial());
        let seen = seen.unwrap_or_else(|what| panic!("loads: {loads}: {what}"));
        println!(
            "loads: {loads}: {} events, {seen} accesses were expected and seen",
            outcome.events
        );
        assert!(executor.is_replayed(&reader), "loads: {loads}: the replay makes another file");
    }
}

#[test]
fn every_form_can_be_made() {
    let all = forms::forms();
    let can_be = |code: &Code| {
        (0..8).any(|seed| !Maker::sequence(seed, addresses::CODE, &[*code]).forms.is_empty())
    };
    let never: Vec<_> = all.iter().filter(|code| !can_be(code)).collect();
    // Of 16 bits: they go where no program is.
    use Code::{Call_rel16, Call_rm16, Jmp_rm16, Retnw, Retnw_imm16};
    assert_eq!(never, [&Retnw_imm16, &Retnw, &Call_rel16, &Call_rm16, &Jmp_rm16]);
    assert!(all.len() > 500, "{}", all.len());
}

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

#[test]
fn single_instructions_do_what_they_do_natively() {
    compare(
        number("RINGFENCE_SEED", 1),
        number("RINGFENCE_COUNT", 4000) as usize,
        number("RINGFENCE_LENGTH", 1),
        Where::Apart,
    );
}

#[test]
#[ignore = "processors differ in what a call to no address leaves behind, and one of Intel's alone \
            was looked at"]
fn calls_that_lead_nowhere_fail_as_natively() {
    let made = sequences(4, 3000, 1, &[Code::Call_rm64], Where::Apart);
    same_as_natively(&Executor::new(), &made, Where::Apart);
}

#[test]
fn code_that_is_written_anew_is_seen_anew() {
    compare(number("RINGFENCE_SEED", 3), 2000, 3, Where::Same);
}

#[test]
#[ignore = "takes minutes: RINGFENCE_SEQUENCES says how many, a million by default"]
fn many_sequences_do_what_they_do_natively() {
    let (first, count) =
        (number("RINGFENCE_SEED", 1000), number("RINGFENCE_SEQUENCES", 1_000_000) / BATCH as u64);
    for seed in first..first + count {
        println!("seed {seed}");
        compare(seed, BATCH, 6, if seed % 5 == 0 { Where::Same } else { Where::Apart });
    }
}

#[test]
#[ignore = "takes minutes: RINGFENCE_SEQUENCES says how many functions, 100,000 by default"]
fn many_replaced_instructions_do_what_they_do_natively() {
    let (first, count) =
        (number("RINGFENCE_SEED", 1000), number("RINGFENCE_SEQUENCES", 100_000) / BATCH as u64);
    for seed in first..first + count {
        println!("seed {seed}");
        patches::compare(seed, BATCH, false);
        patches::compare(seed, BATCH / 10, true);
    }
}
