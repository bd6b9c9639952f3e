//! The ring loses nothing that was acknowledged, and revives nothing that was not, or was popped.

#[path = "../support/ring.rs"]
mod support;

use ringfence_crashcheck::Profile;
use support::{Life, Step, Step::*};

use crate::sound;

// Under all profiles, with so many crashes.
fn lives(name: &str, life: &Life, crashes: usize) {
    for profile in Profile::ALL {
        let check = life.check(profile).crashes(crashes);
        sound(&check, name, |memory| life.run(memory), |memory| life.recovery(memory));
    }
}

// Where the process may die alone, too.
fn dies(name: &str, life: &Life, crashes: usize) {
    for profile in Profile::ALL {
        let check = life.check(profile).crashes(crashes).kills();
        sound(&check, name, |memory| life.run(memory), |memory| life.recovery(memory));
    }
}

#[test]
fn eight_pushes_around_the_ring() {
    lives("8 pushes", &Life::of_pushes(8), 2);
    lives(
        "8 pushes by ordinary stores",
        &Life { nt_threshold: usize::MAX, ..Life::of_pushes(8) },
        2,
    );
}

#[test]
fn eight_pushes_around_the_ring_and_kills() {
    dies("8 pushes", &Life::of_pushes(8), 2);
}

#[test]
fn lazy_pops() {
    let steps =
        [Push, Push, Push, Pop, Pop, Push, Commit, Push, Pop, NewConsumer, Pop, PopDurably, Push];
    let life = Life {
        lens: vec![3, 20, 45],
        lines: 12,
        next: vec![Pop, Push, Commit],
        ..Life::new(steps)
    };
    lives("lazy pops", &life, 2);
    dies("lazy pops", &Life { steps: vec![Push, Push, Pop, Push, Commit, Pop], ..life }, 2);
}

#[test]
fn batches_committed_and_abandoned() {
    let steps = [
        Push,
        Batch(3),
        PopDurably,
        Abandoned(2),
        Push,
        PopDurably,
        PopDurably,
        Abandoned(1),
        Batch(2),
    ];
    let life = Life { lens: vec![3, 20], ..Life::new(steps) };
    lives("batches", &life, 2);
    let steps = vec![Push, Batch(2), PopDurably, Abandoned(1)];
    let life = Life { steps, next: vec![PopDurably, Batch(2)], ..life };
    lives("batches behind a crash", &life, 2);
    dies(
        "batches",
        &Life {
            steps: vec![Batch(2), PopDurably, Abandoned(2), Push],
            next: vec![Batch(1)],
            ..life
        },
        2,
    );
}

#[test]
fn sides_that_come_and_go() {
    let steps = [
        Push,
        Push,
        Reopen,
        PopDurably,
        Push,
        Abandoned(1),
        NewProducer,
        Push,
        Pop,
        NewConsumer,
        Push,
        Pop,
        Reopen,
    ];
    let life = Life { lens: vec![3, 20], ..Life::new(steps) };
    lives("sides", &life, 2);
    let steps = vec![Push, Reopen, Push, NewProducer, Pop, NewConsumer, Pop, Reopen];
    dies("sides", &Life { steps, next: vec![Push], ..life }, 2);
}

#[test]
fn a_full_ring() {
    let steps =
        [Push, Push, Push, Full, PopDurably, Push, Full, Batch(2), Pop, Commit, Push, Push, Full];
    let life = Life { lens: vec![60, 90, 60, 3, 20, 70], ..Life::new(steps) };
    lives("full", &life, 2);
}

#[test]
fn entries_of_several_lines_that_meet_the_end() {
    let lens = vec![100, 150, 130, 200];
    let steps = [Push, Push, PopDurably, Push, PopDurably, PopDurably, Push];
    let life = Life { lens, ..Life::new(steps) };
    lives("long entries", &life, 2);
    lives("long entries by ordinary stores", &Life { nt_threshold: usize::MAX, ..life.clone() }, 1);
    // Longer than what is staged whole.
    lives("longer entries", &Life { lens: vec![300, 250, 310], lines: 12, ..life }, 1);
}

#[test]
fn a_grain_of_256() {
    let steps = [Push, Push, PopDurably, Push, PopDurably, Batch(1), PopDurably];
    let life = Life { grain: 256, lines: 12, lens: vec![3, 230, 60], ..Life::new(steps) };
    lives("grain 256", &life, 2);
}

#[test]
fn ordinary_stores_and_kills() {
    let life = Life { nt_threshold: usize::MAX, ..Life::new([Push, Batch(2), PopDurably, Push]) };
    dies("ordinary stores", &life, 2);
    lives("ordinary and other stores", &Life { nt_threshold: 128, ..life }, 2);
}

#[test]
fn a_ring_in_place_of_another() {
    let steps =
        [Push, Push, PopDurably, Push, NewProducer, NewProducer, Remake, Push, PopDurably, Push];
    let life = Life { lens: vec![3, 20], ..Life::new(steps) };
    lives("made anew", &life, 2);
    dies("made anew", &Life { steps: vec![Push, Push, PopDurably, Remake, Push], ..life }, 2);
}

#[test]
fn three_crashes() {
    let life = Life { lens: vec![3, 20], lines: 4, ..Life::new([Push, PopDurably, Push]) };
    lives("three crashes", &life, 3);
}

// A life that repeats nothing.
fn random(seed: u64) -> Life {
    let mut state = seed;
    let mut below = |n: u64| {
        // SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (x ^ (x >> 31)) % n
    };
    let grain = [64, 64, 256][below(3) as usize];
    let lines = (3 + below(10) as usize) * grain / 64;
    let mut step = |most: u64| match below(most) {
        0..6 => Push,
        6..9 => Batch(1 + below(3) as usize),
        9..14 => PopDurably,
        14..17 => Pop,
        17 => Commit,
        18 => Abandoned(1 + below(3) as usize),
        19 => NewProducer,
        20 => NewConsumer,
        21 => Reopen,
        _ => Remake,
    };
    let next: Vec<Step> = (0..3).map(|_| step(19)).collect();
    let steps: Vec<Step> = (0..60).map(|_| step(23)).collect();
    Life {
        lines,
        grain,
        nt_threshold: [0, 0, 128, usize::MAX][below(4) as usize],
        lens: (0..7)
            .map(|_| {
                1 + below((64 * lines as u64 / 2).min(if grain == 64 { 150 } else { 400 })) as usize
            })
            .collect(),
        steps,
        next,
    }
}

// `RINGFENCE_SEED` is the first life's, and the search's in it.
fn random_lives(lives: u64, states: u64) {
    let number =
        |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let first = number("RINGFENCE_SEED").unwrap_or(1);
    for seed in first..first + lives {
        let life = random(seed);
        let profile = Profile::ALL[seed as usize % 4];
        let check = life.check(profile).crashes(1 + seed as usize / 4 % 3);
        let check = if seed / 16 % 2 == 0 { check } else { check.kills() };
        let report = check
            .sample(seed, states)
            .run(|memory| life.run(memory), |memory| life.recovery(memory));
        assert!(report.violation.is_none(), "RINGFENCE_SEED={seed}: {life:?}\n{report}");
    }
}

#[test]
fn long_lives_at_random() {
    random_lives(32, 50);
}

/// `RINGFENCE_CASES` says how many lives.
#[test]
#[ignore = "minutes long: in the nightly"]
fn longer_search_of_long_lives() {
    let cases =
        std::env::var("RINGFENCE_CASES").map_or(1000, |text| text.parse().expect("a number"));
    random_lives(cases, 1000);
}
