//! The explorer against a declarative oracle, over several lives: processes that are killed, stores
//! that are not aligned, checksums of any ranges, up to three crashes.

#[path = "support/order.rs"]
mod order;

use std::cell::RefCell;
use std::collections::{BTreeSet, HashSet};
use std::ops::Range;

use order::{Class, ordered};
use ringfence_crashcheck::{Check, Machine, Profile};
use ringfence_persist::{Memory, checksum};

// The last two words of one line and the first two of the next.
const FROM: usize = 48;
const LEN: usize = 32;

type Image = [u8; LEN];

// What is written, by its place in the image; words of one operation are apart.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Event {
    class: Class,
    write: Option<(Range<usize>, u8)>,
}

#[derive(Debug, Clone)]
enum Op {
    Store(Range<usize>),
    Stream(usize),
    Locked(usize),
    // A compare-exchange that fails.
    Failed(usize),
    Flushopt(usize),
    Flush(usize),
    Sfence,
    Mfence,
}

#[derive(Debug, Clone)]
enum Step {
    Do(Op),
    // What is stored depends on a byte.
    From(Op, usize),
    // Whether the ranges are as in one of the images known; stored in a byte.
    Verify([Range<usize>; 2], usize, usize),
}

fn events_of(op: &Op, value: u8) -> Vec<Event> {
    let word = |word: usize| word * 8..word * 8 + 8;
    let line = |at: usize| (FROM + at) / 64;
    let one = |class, write: Option<Range<usize>>| {
        vec![Event { class, write: write.map(|range| (range, value)) }]
    };
    match op {
        Op::Store(range) => {
            let mut all = Vec::new();
            let mut at = range.start;
            while at < range.end {
                let end = (at / 8 * 8 + 8).min(range.end);
                all.extend(one(Class::Write(line(at)), Some(at..end)));
                at = end;
            }
            all
        }
        Op::Stream(n) => one(Class::Stream, Some(word(*n))),
        Op::Locked(n) => one(Class::Locked, Some(word(*n))),
        Op::Failed(_) => one(Class::Locked, None),
        Op::Flushopt(line) => one(Class::Flushopt(*line), None),
        Op::Flush(line) => one(Class::Flush(*line), None),
        Op::Sfence => one(Class::Sfence, None),
        Op::Mfence => one(Class::Mfence, None),
    }
}

// What memory can be after a crash behind the last of the events, of which the first `killed` are
// of processes that died before: what these stored was seen by others.
fn left(profile: Profile, events: &[Event], killed: usize, base: Image) -> BTreeSet<Image> {
    let stores: Vec<usize> = (0..events.len()).filter(|i| events[*i].write.is_some()).collect();
    let ordinary = |i: usize| events[i].class != Class::Stream;
    let line = |i: usize| events[i].write.as_ref().map(|(range, _)| (FROM + range.start) / 64);
    let mut images = BTreeSet::new();
    'sets: for set in 0u32..1 << stores.len() {
        let durable =
            |i: usize| stores.iter().position(|s| *s == i).is_some_and(|bit| set >> bit & 1 == 1);
        let fence = |class| matches!(class, Class::Sfence | Class::Mfence | Class::Locked);
        let seen = |i: usize| i < killed && ordinary(i) && profile == Profile::Eadr;
        let mut done: Vec<bool> =
            (0..events.len()).map(|i| durable(i) || fence(events[i].class) || seen(i)).collect();
        for i in (0..events.len()).rev() {
            for j in i + 1..events.len() {
                done[i] |= done[j] && ordered(profile, events[i].class, events[j].class);
            }
        }
        for s in stores.iter().copied().filter(|s| !durable(*s)) {
            let here = |at: usize| ordinary(s) && line(s) == Some(at);
            let demanded = (s + 1..events.len()).any(|i| match events[i].class {
                Class::Write(_) | Class::Locked => durable(i) && line(i).is_some_and(here),
                Class::Flushopt(at) | Class::Flush(at) => done[i] && here(at),
                _ => false,
            });
            if demanded || (done[s] && (!ordinary(s) || profile == Profile::Eadr)) {
                continue 'sets;
            }
        }
        images.insert(overlaid(base, stores.iter().filter(|s| durable(**s)).map(|s| &events[*s])));
    }
    images
}

fn overlaid<'e>(mut image: Image, events: impl IntoIterator<Item = &'e Event>) -> Image {
    for (range, value) in events.into_iter().filter_map(|event| event.write.clone()) {
        image[range].fill(value);
    }
    image
}

fn value(life: usize, number: usize) -> u8 {
    (life * 20 + number * 2 + 1) as u8
}

fn bytes(image: &Image, pieces: &[Range<usize>; 2]) -> Vec<u8> {
    [&image[pieces[0].clone()], &image[pieces[1].clone()]].concat()
}

// What a life does that finds this image.
fn lived(life: usize, steps: &[Step], mut now: Image, known: &[Image]) -> Vec<Event> {
    let mut all = vec![Event { class: Class::Nothing, write: None }];
    for (number, step) in steps.iter().enumerate() {
        let own = value(life, number);
        let events = match step {
            Step::Do(op) => events_of(op, own),
            Step::From(op, at) => events_of(op, own.wrapping_add(now[*at].wrapping_mul(64))),
            Step::Verify(pieces, image, at) => {
                let same = bytes(&now, pieces) == bytes(&known[*image], pieces);
                events_of(&Op::Store(*at..at + 1), if same { own } else { own + 1 })
            }
        };
        now = overlaid(now, &events);
        all.extend(events);
    }
    all
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct State {
    base: Image,
    pending: Vec<Event>,
    life: usize,
    crashes: usize,
}

struct Oracle<'a> {
    profile: Profile,
    lives: &'a [Vec<Step>],
    known: &'a [Image],
    kills: bool,
    crashes: usize,
    seen: HashSet<State>,
    images: BTreeSet<Image>,
}

impl Oracle<'_> {
    fn live(&mut self, state: State) {
        if !self.seen.insert(state.clone()) {
            return;
        }
        let image = overlaid(state.base, &state.pending);
        if state.life == self.lives.len() {
            self.images.insert(image);
            return;
        }
        if state.crashes == self.crashes {
            return;
        }
        let events = lived(state.life, &self.lives[state.life], image, self.known);
        for end in 0..=events.len() {
            let all = [&state.pending, &events[..end]].concat();
            let next = |base, pending| State {
                base,
                pending,
                life: state.life + usize::from(end > 0),
                crashes: state.crashes + 1,
            };
            for image in left(self.profile, &all, state.pending.len(), state.base) {
                self.live(next(image, Vec::new()));
            }
            if self.kills {
                self.live(next(state.base, all));
            }
        }
    }
}

fn perform(memory: &Machine, op: &Op, value: u8) {
    let word = |n: usize| FROM + n * 8;
    match op {
        Op::Store(range) => memory.store(FROM + range.start, &vec![value; range.len()]),
        Op::Stream(n) => memory.store_nt(word(*n), &[value; 8]),
        Op::Locked(n) => {
            let now = memory.load_u64(word(*n));
            memory.compare_exchange_u64(word(*n), now, u64::from_le_bytes([value; 8])).unwrap();
        }
        Op::Failed(n) => {
            let now = memory.load_u64(word(*n));
            memory.compare_exchange_u64(word(*n), !now, 1).unwrap_err();
        }
        Op::Flushopt(line) => memory.clwb(line * 64),
        Op::Flush(line) => memory.clflush(line * 64),
        Op::Sfence => memory.sfence(),
        Op::Mfence => memory.mfence(),
    }
}

fn live(memory: &Machine, life: usize, steps: &[Step], known: &[Image]) {
    memory.mark(life as u64);
    for (number, step) in steps.iter().enumerate() {
        let own = value(life, number);
        match step {
            Step::Do(op) => perform(memory, op, own),
            Step::From(op, at) => {
                let mut byte = [0];
                memory.load(FROM + at, &mut byte);
                perform(memory, op, own.wrapping_add(byte[0].wrapping_mul(64)));
            }
            Step::Verify(pieces, image, at) => {
                let sum = checksum::of(&bytes(&known[*image], pieces), 5);
                let there = pieces.clone().map(|piece| FROM + piece.start..FROM + piece.end);
                let same = memory.verify(there, 5, sum);
                memory.store(FROM + at, &[if same { own } else { own + 1 }]);
            }
        }
    }
}

fn explored(
    profile: Profile,
    lives: &[Vec<Step>],
    known: &[Image],
    kills: bool,
    crashes: usize,
) -> BTreeSet<Image> {
    let images = RefCell::new(BTreeSet::new());
    let check = Check::new(profile, 128).unfenced().crashes(crashes);
    let check = if kills { check.kills() } else { check };
    let report = check.run(
        |memory: &Machine| live(memory, 0, &lives[0], known),
        |memory| {
            match lives.get(memory.marks().len()) {
                Some(steps) => live(memory, memory.marks().len(), steps, known),
                None => {
                    let mut image = [0; LEN];
                    memory.load(FROM, &mut image);
                    images.borrow_mut().insert(image);
                }
            }
            Ok(())
        },
    );
    assert!(!report.bounded);
    report.expect_sound();
    images.into_inner()
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

fn range(random: &mut impl FnMut(usize) -> usize, longest: usize) -> Range<usize> {
    let start = random(LEN);
    start..(start + random(longest + 1)).min(LEN)
}

fn random_op(random: &mut impl FnMut(usize) -> usize) -> Op {
    match random(13) {
        0..3 => Op::Store(range(random, 9)),
        3..5 => {
            let word = random(4);
            Op::Store(word * 8..word * 8 + 8)
        }
        5 => Op::Stream(random(4)),
        6 => Op::Locked(random(4)),
        7 => Op::Failed(random(4)),
        8 => Op::Flushopt(random(2)),
        9 | 10 => Op::Flush(random(2)),
        11 => Op::Sfence,
        _ => Op::Mfence,
    }
}

fn random_step(random: &mut impl FnMut(usize) -> usize, repeated: &[Range<usize>; 2]) -> Step {
    match random(5) {
        0 => Step::From(random_op(random), random(LEN)),
        1 => Step::Verify(repeated.clone(), random(3), random(LEN)),
        2 => Step::Verify([range(random, 16), range(random, 16)], random(3), random(LEN)),
        _ => Step::Do(random_op(random)),
    }
}

fn cases() -> u64 {
    std::env::var("RINGFENCE_CASES").map_or(10_000, |text| text.parse().unwrap())
}

// Lives of so many steps at most, each ended by the last crash at the latest.
fn compare(name: &str, cases: u64, steps: &[usize], kills: bool, crashes: usize) {
    for profile in Profile::ALL {
        let mut outcomes = 0;
        for seed in 0..cases {
            let mut random = numbers(
                ((seed * 4 + profile as u64) << 8) | (crashes as u64 * 2 + u64::from(kills)),
            );
            let first: Vec<Step> =
                (0..1 + random(steps[0])).map(|_| Step::Do(random_op(&mut random))).collect();
            let again = [range(&mut random, 20), range(&mut random, 8)];
            let mut lives = vec![first];
            for longest in &steps[1..] {
                lives.push(
                    (0..1 + random(*longest)).map(|_| random_step(&mut random, &again)).collect(),
                );
            }
            // Checksums are made of memory as the program had it: at first, half way, and at its
            // end.
            let half =
                overlaid([0; LEN], &lived(0, &lives[0][..lives[0].len() / 2], [0; LEN], &[]));
            let known = [[0; LEN], half, overlaid([0; LEN], &lived(0, &lives[0], [0; LEN], &[]))];
            let images = BTreeSet::new();
            let mut oracle = Oracle {
                profile,
                lives: &lives,
                known: &known,
                kills,
                crashes,
                seen: HashSet::new(),
                images,
            };
            oracle.live(State { base: [0; LEN], pending: Vec::new(), life: 0, crashes: 0 });
            let found = explored(profile, &lives, &known, kills, crashes);
            if found != oracle.images {
                let missed: Vec<_> = oracle.images.difference(&found).collect();
                let wrong: Vec<_> = found.difference(&oracle.images).collect();
                panic!(
                    "{profile}, seed {seed}: {lives:?}\nmissed {missed:?}\nimpossible {wrong:?}"
                );
            }
            outcomes += found.len();
        }
        println!("{profile}, {name}: {cases} programs, {outcomes} outcomes, the same by both ways");
    }
}

#[test]
fn stores_of_any_bytes_leave_the_same() {
    compare("one crash", cases() / 2, &[5], false, 1);
}

#[test]
fn checksums_of_any_ranges_find_the_same() {
    compare("two crashes", cases() / 10, &[4, 4], false, 2);
}

#[test]
fn processes_that_die_leave_the_same() {
    compare("two crashes or deaths", cases() / 20, &[3, 3], true, 2);
}

#[test]
fn three_crashes_leave_the_same() {
    compare("three crashes", cases() / 40, &[3, 2, 2], false, 3);
}

#[test]
fn three_crashes_and_deaths_leave_the_same() {
    compare("three crashes or deaths", cases() / 100, &[2, 2, 2], true, 3);
}
