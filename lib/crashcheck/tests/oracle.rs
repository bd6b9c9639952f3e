//! The explorer against a declarative oracle: small programs, every outcome, by two ways that share
//! no code.
//!
//! The oracle reads the order table of the model as data, draws all conclusions of "this store is
//! in memory" and "this fence was passed", and keeps the sets of stores that contradict none of
//! them.

#[path = "support/order.rs"]
mod order;

use std::cell::RefCell;
use std::collections::BTreeSet;

use order::{Class, ordered};
use ringfence_crashcheck::{Check, Machine, Profile};
use ringfence_persist::{Memory, checksum};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Op {
    Store(usize),
    Stream(usize),
    Flushopt(usize),
    Flush(usize),
    Sfence,
    Mfence,
    Locked(usize),
}

// Two words in each of two lines.
const PLACES: [usize; 4] = [0, 8, 64, 72];

type Image = [u64; 4];

fn line(place: usize) -> usize {
    PLACES[place] / 64
}

fn class(op: Op) -> Class {
    match op {
        Op::Store(place) => Class::Write(line(place)),
        Op::Stream(_) => Class::Stream,
        Op::Flushopt(line) => Class::Flushopt(line),
        Op::Flush(line) => Class::Flush(line),
        Op::Sfence => Class::Sfence,
        Op::Mfence => Class::Mfence,
        Op::Locked(_) => Class::Locked,
    }
}

// Every image that a crash anywhere can leave, if the stores of the program write these values over
// `base`.
fn oracle(profile: Profile, program: &[Op], values: &[u64], base: Image) -> BTreeSet<Image> {
    let mut images = BTreeSet::new();
    let writes = |op: Op| matches!(op, Op::Store(_) | Op::Stream(_) | Op::Locked(_));
    let place = |op: Op| match op {
        Op::Store(place) | Op::Stream(place) | Op::Locked(place) => place,
        _ => unreachable!("not a write"),
    };
    for executed in 0..=program.len() {
        let stores: Vec<usize> = (0..executed).filter(|i| writes(program[*i])).collect();
        'sets: for set in 0u32..1 << stores.len() {
            let durable = |i: usize| {
                stores.iter().position(|s| *s == i).is_some_and(|bit| set >> bit & 1 == 1)
            };
            // Took place: whatever is in memory, and the fences that the program has passed.
            let mut done: Vec<bool> = (0..executed)
                .map(|i| {
                    durable(i) || matches!(program[i], Op::Sfence | Op::Mfence | Op::Locked(_))
                })
                .collect();
            for i in (0..executed).rev() {
                for j in i + 1..executed {
                    done[i] |= done[j] && ordered(profile, class(program[i]), class(program[j]));
                }
            }
            for i in 0..executed {
                for s in (0..executed).filter(|s| writes(program[*s]) && !durable(*s)) {
                    let ordinary = !matches!(program[s], Op::Stream(_));
                    let same_line = |line: usize| ordinary && self::line(place(program[s])) == line;
                    let demanded = match program[i] {
                        // A store of the same line that is in memory brings those before it along.
                        Op::Store(other) | Op::Locked(other) => {
                            durable(i) && s < i && same_line(line(other))
                        }
                        Op::Flushopt(line) | Op::Flush(line) => done[i] && s < i && same_line(line),
                        _ => false,
                    };
                    // A non-temporal store that took place is in memory, and under eADR every
                    // store.
                    let visible = s == i && done[s] && (!ordinary || profile == Profile::Eadr);
                    if demanded || visible {
                        continue 'sets;
                    }
                }
            }
            let mut image = base;
            for i in stores.iter().filter(|i| durable(**i)) {
                image[place(program[*i])] = values[*i];
            }
            images.insert(image);
        }
    }
    images
}

fn perform(memory: &Machine, op: Op, value: u64) {
    match op {
        Op::Store(place) => memory.store_u64(PLACES[place], value),
        Op::Stream(place) => memory.store_nt(PLACES[place], &value.to_le_bytes()),
        Op::Flushopt(line) => memory.clwb(line * 64),
        Op::Flush(line) => memory.clflush(line * 64),
        Op::Sfence => memory.sfence(),
        Op::Mfence => memory.mfence(),
        Op::Locked(place) => {
            let now = memory.load_u64(PLACES[place]);
            memory.compare_exchange_u64(PLACES[place], now, value).unwrap();
        }
    }
}

fn explored(profile: Profile, program: &[Op]) -> BTreeSet<Image> {
    let images = RefCell::new(BTreeSet::new());
    let report = Check::new(profile, 128).unfenced().run(
        |memory: &Machine| {
            for (number, op) in program.iter().enumerate() {
                perform(memory, *op, number as u64 + 1);
            }
        },
        |memory| {
            images.borrow_mut().insert(PLACES.map(|place| memory.load_u64(place)));
            Ok(())
        },
    );
    assert!(!report.bounded);
    report.expect_sound();
    images.into_inner()
}

fn random_program(random: &mut impl FnMut(usize) -> usize, longest: usize) -> Vec<Op> {
    let len = 1 + random(longest);
    let mut writes = 0;
    (0..len)
        .map(|_| match random(10) {
            0..4 if writes < 7 => {
                writes += 1;
                Op::Store(random(4))
            }
            4 if writes < 7 => {
                writes += 1;
                Op::Stream(random(4))
            }
            5 => Op::Flushopt(random(2)),
            6 | 0 | 1 => Op::Flush(random(2)),
            7 => Op::Sfence,
            8 => Op::Mfence,
            9 if writes < 7 => {
                writes += 1;
                Op::Locked(random(4))
            }
            _ => Op::Flushopt(random(2)),
        })
        .collect()
}

// SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
fn numbers(mut state: u64) -> impl FnMut(usize) -> usize {
    move |end| {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % end as u64) as usize
    }
}

fn cases() -> u64 {
    std::env::var("RINGFENCE_CASES").map_or(10_000, |text| text.parse().unwrap())
}

#[test]
fn ten_thousand_programs_have_the_same_outcomes() {
    let cases = cases();
    for profile in Profile::ALL {
        let mut outcomes = 0;
        for seed in 0..cases {
            let program = random_program(&mut numbers(seed * 4 + profile as u64), 9);
            let values: Vec<u64> = (1..).take(program.len()).collect();
            let (wanted, found) =
                (oracle(profile, &program, &values, [0; 4]), explored(profile, &program));
            assert_eq!(found, wanted, "{profile}, seed {seed}: {program:?}");
            outcomes += wanted.len();
        }
        println!("{profile}: {cases} programs, {outcomes} outcomes, the same by both ways");
    }
}

// What a second run does: an operation that stores a number of its own, or one that depends on what
// it finds at a place, or asks whether a line's words are as the first run knew them at its end.
#[derive(Debug, Clone, Copy)]
enum Step {
    Own(Op),
    From(Op, usize),
    Verify(usize),
}

fn place_of(op: Op) -> Option<usize> {
    match op {
        Op::Store(place) | Op::Stream(place) | Op::Locked(place) => Some(place),
        _ => None,
    }
}

fn sum_of(words: &[u64]) -> u64 {
    checksum::of(&words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>(), 5)
}

// What the second run stores, if it finds this image: operations and values.
fn second_run(steps: &[Step], image: Image, known: Image) -> (Vec<Op>, Vec<u64>) {
    let (mut ops, mut values, mut now) = (Vec::new(), Vec::new(), image);
    for (number, step) in steps.iter().enumerate() {
        let own = 1000 + number as u64;
        let (op, value) = match *step {
            Step::Own(op) => (op, own),
            Step::From(op, place) => (op, own + 100 * now[place]),
            Step::Verify(line) => {
                let same = now[line * 2..][..2] == known[line * 2..][..2];
                (Op::Store(3), if same { own } else { own + 50 })
            }
        };
        if let Some(place) = place_of(op) {
            now[place] = value;
        }
        ops.push(op);
        values.push(value);
    }
    (ops, values)
}

fn explored_twice(
    profile: Profile,
    program: &[Op],
    steps: &[Step],
    known: Image,
) -> BTreeSet<Image> {
    let images = RefCell::new(BTreeSet::new());
    let report = Check::new(profile, 128).unfenced().crashes(2).run(
        |memory: &Machine| {
            for (number, op) in program.iter().enumerate() {
                perform(memory, *op, number as u64 + 1);
            }
        },
        |memory| {
            if memory.marks() == [7] {
                images.borrow_mut().insert(PLACES.map(|place| memory.load_u64(place)));
                return Ok(());
            }
            memory.mark(7);
            for (number, step) in steps.iter().enumerate() {
                let own = 1000 + number as u64;
                match *step {
                    Step::Own(op) => perform(memory, op, own),
                    Step::From(op, place) => {
                        perform(memory, op, own + 100 * memory.load_u64(PLACES[place]))
                    }
                    Step::Verify(line) => {
                        let same = memory.verify(
                            [line * 64..line * 64 + 16, 0..0],
                            5,
                            sum_of(&known[line * 2..][..2]),
                        );
                        memory.store_u64(PLACES[3], if same { own } else { own + 50 });
                    }
                }
            }
            Ok(())
        },
    );
    assert!(!report.bounded);
    report.expect_sound();
    images.into_inner()
}

// Found a fault of the checker once: two states merged that differed in what a checksum that did
// not fit said of a word below a later store.
const FOUND: [u64; 1] = [46_931];

#[test]
fn what_two_crashes_leave_is_the_same_too() {
    let cases = cases() / 4;
    for profile in Profile::ALL {
        let mut outcomes = 0;
        for seed in (0..cases).chain(FOUND) {
            let mut random = numbers((1 << 40) + seed * 4 + profile as u64);
            let program = random_program(&mut random, 6);
            let steps: Vec<Step> = random_program(&mut random, 5)
                .into_iter()
                .map(|op| match random(4) {
                    0 => Step::Verify(random(2)),
                    1 if place_of(op).is_some() => Step::From(op, random(4)),
                    _ => Step::Own(op),
                })
                .collect();
            let values: Vec<u64> = (1..).take(program.len()).collect();
            // A checksum that the first run made of what it knew at its end.
            let mut known = [0; 4];
            for (op, value) in program.iter().zip(&values) {
                if let Some(place) = place_of(*op) {
                    known[place] = *value;
                }
            }
            let mut wanted = BTreeSet::new();
            for image in oracle(profile, &program, &values, [0; 4]) {
                let (ops, values) = second_run(&steps, image, known);
                wanted.extend(oracle(profile, &ops, &values, image));
            }
            let found = explored_twice(profile, &program, &steps, known);
            assert_eq!(found, wanted, "{profile}, seed {seed}: {program:?}, then {steps:?}");
            outcomes += wanted.len();
        }
        println!(
            "{profile}: {cases} programs with two crashes, {outcomes} outcomes, the same by both \
             ways"
        );
    }
}
