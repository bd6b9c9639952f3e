//! The explorer against a declarative oracle: small programs, every outcome, by two ways that share no code.
//!
//! The oracle reads the order table of the model as data, draws all conclusions of "this store is in memory" and
//! "this fence was passed", and keeps the sets of stores that contradict none of them.

use std::cell::RefCell;
use std::collections::BTreeSet;

use ringfence_crashcheck::{Check, Machine, Profile};
use ringfence_persist::Memory;

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

// Rows and columns: write, locked or mfence, sfence, clwb, clflush. '+' yes, '-' no, '=' on the same line.
const INTEL: [&str; 5] = ["+++=+", "+++++", "+++++", "-++-=", "+++=+"];
// clflush as weak as clwb, and not ordered by locked instructions.
const AMD: [&str; 5] = ["+++==", "+++++", "+++++", "-++-=", "-m+=="];
// Nor by sfence.
const OLD_AMD: [&str; 5] = ["+++==", "+++++", "+++++", "-++-=", "-m-=="];

fn ordered(profile: Profile, first: Op, second: Op) -> bool {
    let class = |op: Op| match op {
        Op::Store(place) => Some((0, line(place))),
        Op::Locked(_) | Op::Mfence => Some((1, usize::MAX)),
        Op::Sfence => Some((2, usize::MAX)),
        Op::Flushopt(line) => Some((3, line)),
        Op::Flush(line) => Some((4, line)),
        Op::Stream(_) => None,
    };
    let fence = |op: Op| matches!(op, Op::Sfence | Op::Mfence | Op::Locked(_));
    // Non-temporal stores are ordered by fences alone.
    let (Some((row, one)), Some((column, other))) = (class(first), class(second)) else {
        return fence(first) || fence(second);
    };
    let table = match profile {
        Profile::IntelAdr | Profile::Eadr => INTEL,
        Profile::Amd => AMD,
        Profile::OldAmd => OLD_AMD,
    };
    match table[row].as_bytes()[column] {
        b'+' => true,
        b'=' => one == other,
        b'm' => second == Op::Mfence,
        _ => false,
    }
}

// Every image that a crash anywhere can leave.
fn oracle(profile: Profile, program: &[Op]) -> BTreeSet<Image> {
    let mut images = BTreeSet::new();
    let writes = |op: Op| matches!(op, Op::Store(_) | Op::Stream(_) | Op::Locked(_));
    let place = |op: Op| match op {
        Op::Store(place) | Op::Stream(place) | Op::Locked(place) => place,
        _ => unreachable!("not a write"),
    };
    for executed in 0..=program.len() {
        let stores: Vec<usize> = (0..executed).filter(|i| writes(program[*i])).collect();
        'sets: for set in 0u32..1 << stores.len() {
            let durable =
                |i: usize| stores.iter().position(|s| *s == i).is_some_and(|bit| set >> bit & 1 == 1);
            // Took place: whatever is in memory, and the fences that the program has passed.
            let mut done: Vec<bool> = (0..executed)
                .map(|i| durable(i) || matches!(program[i], Op::Sfence | Op::Mfence | Op::Locked(_)))
                .collect();
            for i in (0..executed).rev() {
                for j in i + 1..executed {
                    done[i] |= done[j] && ordered(profile, program[i], program[j]);
                }
            }
            for i in 0..executed {
                for s in (0..executed).filter(|s| writes(program[*s]) && !durable(*s)) {
                    let ordinary = !matches!(program[s], Op::Stream(_));
                    let same_line = |line: usize| ordinary && self::line(place(program[s])) == line;
                    let demanded = match program[i] {
                        // A store of the same line that is in memory brings those before it along.
                        Op::Store(other) | Op::Locked(other) => durable(i) && s < i && same_line(line(other)),
                        Op::Flushopt(line) | Op::Flush(line) => done[i] && s < i && same_line(line),
                        _ => false,
                    };
                    // A non-temporal store that took place is in memory, and under eADR every store.
                    let visible = s == i && done[s] && (!ordinary || profile == Profile::Eadr);
                    if demanded || visible {
                        continue 'sets;
                    }
                }
            }
            let mut image = [0; 4];
            for i in stores.iter().filter(|i| durable(**i)) {
                image[place(program[*i])] = *i as u64 + 1;
            }
            images.insert(image);
        }
    }
    images
}

fn explored(profile: Profile, program: &[Op]) -> BTreeSet<Image> {
    let images = RefCell::new(BTreeSet::new());
    let report = Check::new(profile, 128).run(
        |memory: &Machine| {
            for (number, op) in program.iter().enumerate() {
                let value = number as u64 + 1;
                match *op {
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
        },
        |memory| {
            images.borrow_mut().insert(PLACES.map(|place| memory.load_u64(place)));
            Ok(())
        },
    );
    assert!(!report.bounded && report.violation.is_none());
    images.into_inner()
}

fn random_program(random: &mut impl FnMut(usize) -> usize) -> Vec<Op> {
    let len = 1 + random(9);
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

#[test]
fn ten_thousand_programs_have_the_same_outcomes() {
    let cases: u64 = std::env::var("RINGFENCE_CASES").map_or(10_000, |text| text.parse().unwrap());
    for profile in Profile::ALL {
        let mut outcomes = 0;
        for seed in 0..cases {
            let mut state = seed * 4 + profile as u64;
            // SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
            let mut random = |end: usize| {
                state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
                let mut z = state;
                z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
                ((z ^ (z >> 31)) % end as u64) as usize
            };
            let program = random_program(&mut random);
            let (wanted, found) = (oracle(profile, &program), explored(profile, &program));
            assert_eq!(found, wanted, "{profile}, seed {seed}: {program:?}");
            outcomes += wanted.len();
        }
        println!("{profile}: {cases} programs, {outcomes} outcomes, the same by both ways");
    }
}
