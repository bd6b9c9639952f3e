//! Negative controls: the same tests fail methods that are wrong, so passing them means something.

use ringfence_analysis::estimate::{Interval, NotEstimable, Pair, Window, slowdown};

use crate::coverage::MOST_FALSE_ALARMS;
use crate::noise::{EXPERIMENTS, Machine, SEEDS, Setup};

/// Ten looks at a plain 95 % interval find something in about 20 % of the cases.
#[test]
fn peeking_raises_false_alarms() {
    for seed in SEEDS {
        let mut machine = Machine::new(seed);
        let mut alarms = 0;
        for _ in 0..EXPERIMENTS {
            let pairs = machine.trials(&Setup::of(1.0), 40);
            let per_trial = pairs.len() / 40;
            let alarm = (1..=10).any(|look| {
                let seen = &pairs[..look * 4 * per_trial];
                slowdown(seen, 0.95).is_ok_and(|interval| !interval.contains(1.0))
            });
            alarms += u32::from(alarm);
        }
        println!("peeking, seed {seed}: {alarms} false alarms");
        assert!(alarms > MOST_FALSE_ALARMS, "peeking gave only {alarms} false alarms");
    }
}

/// Takes every pair for a trial of its own.
fn ignoring_trials(pairs: &[Pair]) -> Result<Interval, NotEstimable> {
    let alone: Vec<Pair> = (0..).zip(pairs).map(|(trial, pair)| Pair { trial, ..*pair }).collect();
    slowdown(&alone, 0.95)
}

/// Where trials differ in the effect, pairs of one trial are not independent.
#[test]
fn ignoring_trials_undercovers() {
    for seed in SEEDS {
        let mut machine = Machine::new(seed);
        let setup = Setup { pairs: 20, ..Setup::with_varied_effect(1.02) };
        let (mut pooled, mut by_trial) = (0, 0);
        for _ in 0..EXPERIMENTS {
            let pairs = machine.trials(&setup, 10);
            pooled += u32::from(ignoring_trials(&pairs).unwrap().contains(setup.slowdown));
            by_trial += u32::from(slowdown(&pairs, 0.95).unwrap().contains(setup.slowdown));
        }
        println!(
            "effect varies, seed {seed}: {pooled} covered ignoring trials, {by_trial} by trial"
        );
        assert!(pooled < 1_800, "{pooled}");
        assert!(by_trial >= 1_870, "{by_trial}");
    }
}

/// Windows that drift: an interval that takes one side's windows for independent misses that side's
/// mean level.
#[test]
fn windows_are_not_independent() {
    let mut machine = Machine::new(SEEDS[0]);
    let runs: Vec<Vec<(u32, Window)>> = (0..EXPERIMENTS)
        .map(|_| {
            let pairs = machine.trials(&Setup::of(1.0), 10);
            (0..).zip(pairs).map(|(trial, pair)| (trial, pair.baseline)).collect()
        })
        .collect();
    // The rate is 0.02 units per ns: 50 ns per unit.
    let covered = runs
        .iter()
        .filter(|windows| ringfence_analysis::estimate::rate(windows, 0.95).unwrap().contains(50.0))
        .count();
    println!("drift: {covered} covered by windows taken for independent");
    assert!(covered < 1_000, "{covered}");
}

/// A known limit rather than a wrong method: one trial in ten is 12x slower, and ten trials may
/// hold none of them.
#[test]
fn rare_trials_escape_few_trials() {
    let mut machine = Machine::new(SEEDS[0]);
    let truth = 12f64.powf(0.1);
    let covered = (0..EXPERIMENTS).filter(|_| {
        let pairs: Vec<Pair> = (0..10)
            .flat_map(|trial| {
                let slow = machine.uniform() < 0.1;
                machine.live(trial, &Setup::of(if slow { 12.0 } else { 1.0 }))
            })
            .collect();
        slowdown(&pairs, 0.95).unwrap().contains(truth)
    });
    let covered = covered.count();
    println!("one trial in ten is slower: {covered} covered");
    assert!((1_200..1_400).contains(&covered), "{covered}");
}
