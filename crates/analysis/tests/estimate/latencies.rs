//! Latencies whose levels wander from window to window, with delays planted in some: does the
//! interval of a quantile hold the truth, and do those that take windows or operations for
//! independent not?

use rand_distr::{Distribution, StandardNormal, StandardUniform};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use ringfence_analysis::estimate::{Estimate, Interval, LatencyPair, quantile_of, quantile_ratio};
use ringfence_analysis::quantile::quantile;
use ringfence_experiment::class::Class;
use ringfence_experiment::histogram::{BUCKETS, Histogram, bucket_of};
use ringfence_experiment::quantity::Quantile;
use statrs::distribution::{ContinuousCDF, Normal};

const EXPERIMENTS: u32 = 300;

// What prove takes of a victim that uses a disk: a pair of windows in each trial.
const TRIALS: u32 = 24;

// A commit and a window, ns: some 400 commits in each.
const COMMIT: f64 = 100e3;
const WINDOW: f64 = 40e6;

// A commit's own scatter, and that of a window's level, as standard deviations of the logarithm.
// With them the mean of a window varies 100 times more than that of as many independent commits
// would; 90 were measured.
const OWN_SD: f64 = 0.4;
const LEVEL_SD: f64 = 0.2;

// From one window to the next.
const CORRELATION: f64 = 0.6;

/// Delays that are planted beside the aggressor.
#[derive(Clone, Copy)]
struct Planted {
    ns: f64,
    /// In so many of the windows,
    windows: f64,
    /// so many of the commits.
    commits: f64,
}

const NONE: Planted = Planted { ns: 0.0, windows: 0.0, commits: 0.0 };
const SPREAD_OUT: Planted = Planted { ns: 1e6, windows: 1.0, commits: 0.02 };
const IN_BURSTS: Planted = Planted { ns: 1e6, windows: 0.4, commits: 0.06 };

struct Device {
    rng: Xoshiro256PlusPlus,
    level: f64,
}

impl Device {
    fn new(seed: u64) -> Self {
        let mut device = Self { rng: Xoshiro256PlusPlus::seed_from_u64(seed), level: 0.0 };
        device.level = LEVEL_SD * device.normal();
        device
    }

    fn normal(&mut self) -> f64 {
        StandardNormal.sample(&mut self.rng)
    }

    fn uniform(&mut self) -> f64 {
        StandardUniform.sample(&mut self.rng)
    }

    // One commit after the other until the window is over.
    fn window(&mut self, planted: Planted) -> Vec<f64> {
        self.level = CORRELATION * self.level
            + (1.0 - CORRELATION * CORRELATION).sqrt() * LEVEL_SD * self.normal();
        let struck = self.uniform() < planted.windows;
        let (mut all, mut ns) = (Vec::with_capacity(512), 0.0);
        while ns < WINDOW {
            let mut commit = COMMIT * (self.level + OWN_SD * self.normal()).exp();
            if struck && self.uniform() < planted.commits {
                commit += planted.ns;
            }
            ns += commit;
            all.push(commit);
        }
        all
    }

    /// Pairs of windows, alone and beside, in random order.
    fn run(&mut self, trials: u32, planted: Planted) -> Vec<[Vec<f64>; 2]> {
        let pair = |_| {
            if self.uniform() < 0.5 {
                let alone = self.window(NONE);
                [alone, self.window(planted)]
            } else {
                let beside = self.window(planted);
                [self.window(NONE), beside]
            }
        };
        (0..trials).map(pair).collect()
    }
}

fn histogram<'a>(all: impl Iterator<Item = &'a f64>) -> Histogram {
    let mut counts = [0; BUCKETS];
    all.for_each(|ns| counts[bucket_of(*ns as u64)] += 1);
    Histogram::of_buckets(counts)
}

fn pair(trial: u32, [alone, beside]: [Histogram; 2]) -> LatencyPair {
    LatencyPair { trial, class: Class::Unprobed, baseline: alone, arm: beside }
}

fn ours(run: &[[Vec<f64>; 2]], of: Quantile) -> Estimate {
    let sides = |sides: &[Vec<f64>; 2]| [histogram(sides[0].iter()), histogram(sides[1].iter())];
    let pairs: Vec<LatencyPair> =
        (0..).zip(run).map(|(trial, both)| pair(trial, sides(both))).collect();
    quantile_ratio(&pairs, of, 0.95)
}

// Student's t over the log-ratios of windows' quantiles.
fn over_windows(run: &[[Vec<f64>; 2]], of: Quantile) -> Estimate {
    let log = |side: &Vec<f64>| {
        let mut sorted = side.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        quantile(&sorted, of.share()).ln()
    };
    let logs: Vec<f64> = run.iter().map(|[alone, beside]| log(beside) - log(alone)).collect();
    Interval::over_trials(&logs, 0.95)
}

// Every commit for one of its own: groups of them that have nothing to do with windows.
fn over_commits(run: &[[Vec<f64>; 2]], of: Quantile) -> Estimate {
    let every = |side: usize, group: usize| {
        let all = run.iter().flat_map(|both| &both[side]);
        histogram(all.skip(group).step_by(run.len()))
    };
    let group = |group: u32| pair(group, [0, 1].map(|side| every(side, group as usize)));
    quantile_ratio(&(0..run.len() as u32).map(group).collect::<Vec<_>>(), of, 0.95)
}

// What is stored instead of single latencies: a figure made of it is that of the latencies
// themselves but for a bucket's width.
#[test]
fn figures_of_buckets_are_those_of_the_latencies() {
    let mut device = Device::new(10);
    for of in [Quantile::P50, Quantile::P90, Quantile::P99] {
        for planted in [SPREAD_OUT, IN_BURSTS] {
            let run = device.run(TRIALS, planted);
            let exact = |side: usize| {
                let mut all: Vec<f64> =
                    run.iter().flat_map(|pair| pair[side].iter().copied()).collect();
                all.sort_unstable_by(f64::total_cmp);
                quantile(&all, of.share())
            };
            let trial = |both: &[Vec<f64>; 2]| histogram(both[1].iter());
            let windows: Vec<_> = (0..).zip(run.iter().map(trial)).collect();
            let off = |value: f64, exact: f64| (value / exact).ln().abs();
            let one = quantile_of(&windows, of, 0.95).unwrap();
            // A bucket, and as much again for what lies between two latencies.
            assert!(off(one.value, exact(1)) < 2.0 / 64.0, "{of}: {one:?}, exactly {}", exact(1));
            let Ok(ratio) = ours(&run, of) else { continue };
            assert!(off(ratio.value, exact(1) / exact(0)) < 2.0 / 64.0, "{of}: {ratio:?}");
            // In the buckets of older datasets the interval is wider, not another.
            let older: Vec<LatencyPair> = (0..)
                .zip(&run)
                .map(|(trial, [alone, beside])| {
                    let side = |side: &Vec<f64>| histogram(side.iter()).in_eighths();
                    pair(trial, [side(alone), side(beside)])
                })
                .collect();
            let Ok(older) = quantile_ratio(&older, of, 0.95) else { continue };
            assert!(
                off(older.value, ratio.value) < 0.25
                    && older.low < ratio.high
                    && ratio.low < older.high
            );
        }
    }
}

/// The quantile of all commits of all windows there could be. Slow windows hold fewer.
fn truth(planted: Planted, of: Quantile) -> f64 {
    let normal = Normal::standard();
    let mean = |level: f64, share: f64| {
        COMMIT * (level + OWN_SD * OWN_SD / 2.0).exp() + share * planted.ns
    };
    let levels: Vec<f64> = (-100..=100).map(|step| f64::from(step) * 0.05).collect();
    let at_most = |ns: f64| {
        let (mut below, mut all) = (0.0, 0.0);
        for z in &levels {
            let level = z * LEVEL_SD;
            let own = |ns: f64| {
                if ns > 0.0 { normal.cdf(((ns / COMMIT).ln() - level) / OWN_SD) } else { 0.0 }
            };
            for (windows, share) in
                [(1.0 - planted.windows, 0.0), (planted.windows, planted.commits)]
            {
                let commits = windows * (-z * z / 2.0).exp() / mean(level, share);
                below += commits * ((1.0 - share) * own(ns) + share * own(ns - planted.ns));
                all += commits;
            }
        }
        below / all
    };
    let (mut low, mut high) = (1e3, 1e8);
    for _ in 0..80 {
        let middle = f64::sqrt(low * high);
        if at_most(middle) < of.share() { low = middle } else { high = middle }
    }
    low
}

type Method = fn(&[[Vec<f64>; 2]], Quantile) -> Estimate;

const METHODS: [Method; 3] = [ours, over_windows, over_commits];

/// Of the experiments in which a method tells a figure, how many it tells it in, and in how many
/// the interval holds the true ratio: ours, over windows, over commits.
fn tally(seed: u64, trials: u32, planted: Planted, of: Quantile) -> [(u32, u32); 3] {
    let ratio = truth(planted, of) / truth(NONE, of);
    let mut device = Device::new(seed);
    let mut tally = [(0, 0); 3];
    for _ in 0..EXPERIMENTS {
        let run = device.run(trials, planted);
        for ((told, held), method) in tally.iter_mut().zip(METHODS) {
            let Ok(interval) = method(&run, of) else { continue };
            *told += 1;
            *held += u32::from(interval.contains(ratio));
        }
    }
    println!(
        "{of}, {trials} trials, delays {} x {}, seed {seed}: {tally:?}",
        planted.windows, planted.commits
    );
    tally
}

// Of the experiments, how many a figure was told in.
fn told((told, _): (u32, u32)) -> f64 {
    f64::from(told) / f64::from(EXPERIMENTS)
}

fn share((told, held): (u32, u32)) -> f64 {
    f64::from(held) / f64::from(told)
}

/// A comparison of a side with itself finds a difference in at most 9 of 100.
#[test]
fn nothing_is_found_where_there_is_nothing() {
    for of in [Quantile::P50, Quantile::P90, Quantile::P99] {
        let [own, ..] = tally(1, TRIALS, NONE, of);
        assert!(told(own) >= 0.8 && share(own) >= 0.91, "{of}: {own:?}");
    }
}

#[test]
fn intervals_hold_the_ratio_where_delays_are_planted() {
    for seed in [2, 3] {
        let [own, _, commits] = tally(seed, TRIALS, SPREAD_OUT, Quantile::P99);
        assert!(told(own) >= 0.8 && share(own) >= 0.91, "{own:?}");
        // The control: the same data fail a method that is wrong.
        assert!(share(commits) < 0.85, "{commits:?}");
    }
}

/// Delays that come in some windows and not in others: means of windows' quantiles are about
/// something else.
#[test]
fn intervals_hold_the_ratio_where_delays_come_in_bursts() {
    let [own, windows, commits] = tally(4, TRIALS, IN_BURSTS, Quantile::P99);
    assert!(told(own) >= 0.8 && share(own) >= 0.91, "{own:?}");
    assert!(share(windows) < 0.05 && share(commits) < 0.87, "{windows:?} {commits:?}");
    let [own, windows, commits] = tally(5, 48, IN_BURSTS, Quantile::P90);
    assert!(
        share(own) >= 0.91 && share(windows) < 0.91 && share(commits) < 0.6,
        "{own:?} {windows:?} {commits:?}"
    );
}

/// The number of latencies that is asked for is not one at which intervals begin to lie.
#[test]
fn as_few_latencies_as_are_allowed() {
    let [own, ..] = tally(6, 18, NONE, Quantile::P99);
    assert!(own.0 > EXPERIMENTS / 2 && share(own) >= 0.89, "{own:?}");
    // With four trials, whose groups vary by chance, it is often too many that are asked for.
    let [own, ..] = tally(7, 4, SPREAD_OUT, Quantile::P90);
    assert!(told(own) > 0.25 && share(own) >= 0.89, "{own:?}");
}

/// One side by itself has no neighbour to share the level's wandering with, and its windows follow
/// each other closely here.
#[test]
fn the_quantile_of_one_side() {
    let mut device = Device::new(8);
    for (of, least) in [(Quantile::P50, 0.85), (Quantile::P99, 0.89)] {
        let truth = truth(SPREAD_OUT, of);
        let holds = |_: &u32| {
            let run = device.run(TRIALS, SPREAD_OUT);
            let own: Vec<_> =
                (0..).zip(&run).map(|(trial, both)| (trial, histogram(both[1].iter()))).collect();
            quantile_of(&own, of, 0.95).unwrap().contains(truth)
        };
        let held = (0..EXPERIMENTS).filter(holds).count();
        println!("{of} of one side: {held} of {EXPERIMENTS}");
        assert!(held as f64 >= least * f64::from(EXPERIMENTS), "{of}: {held}");
    }
}

/// A service that is asked at a fixed rate: a stall keeps all that come meanwhile waiting, so that
/// their times come in ramps. Beside a neighbour it stalls twice as often.
struct Service(Xoshiro256PlusPlus);

impl Service {
    const QUESTIONS: usize = 80;

    fn window(&mut self, stalls: f64) -> Vec<f64> {
        let uniform = |rng: &mut Xoshiro256PlusPlus| -> f64 { StandardUniform.sample(rng) };
        let mut normal = || -> f64 { StandardNormal.sample(&mut self.0) };
        let level = 0.05 * normal();
        let mut all: Vec<f64> =
            (0..Self::QUESTIONS).map(|_| 100e3 * (level + 0.3 * normal()).exp()).collect();
        if uniform(&mut self.0) < stalls {
            let from = (uniform(&mut self.0) * Self::QUESTIONS as f64) as usize;
            let length = 1 + (uniform(&mut self.0) * 11.0) as usize;
            for (passed, one) in all[from..].iter_mut().take(length).enumerate() {
                *one += (length - passed) as f64 * 1e6;
            }
        }
        all
    }

    fn run(&mut self, pairs: u32, alone: f64, beside: f64) -> Vec<[Vec<f64>; 2]> {
        (0..pairs).map(|_| [self.window(alone), self.window(beside)]).collect()
    }
}

/// The slowest hundredth are stalls, and between them and all others there is nothing: a quantile
/// that jumps.
#[test]
fn intervals_hold_where_the_slowest_hundredth_are_stalls() {
    let mut service = Service(Xoshiro256PlusPlus::seed_from_u64(9));
    let pooled = |run: &[[Vec<f64>; 2]], side: usize| {
        let mut all: Vec<f64> = run.iter().flat_map(|pair| pair[side].iter().copied()).collect();
        all.sort_unstable_by(f64::total_cmp);
        quantile(&all, Quantile::P99.share())
    };
    let long = service.run(20_000, 0.15, 0.3);
    let ratio = pooled(&long, 1) / pooled(&long, 0);
    assert!(ratio > 2.0, "{ratio}");
    let cases = [
        (40, 0.25, ratio, (0.15, 0.3)),
        (160, 0.9, ratio, (0.15, 0.3)),
        (80, 0.9, 1.0, (0.03, 0.03)),
    ];
    for (pairs, least_told, truth, (alone, beside)) in cases {
        let runs = (0..EXPERIMENTS).map(|_| service.run(pairs, alone, beside));
        let (mut found, mut held) = (0, 0);
        for interval in runs.filter_map(|run| ours(&run, Quantile::P99).ok()) {
            (found, held) = (found + 1, held + u32::from(interval.contains(truth)));
        }
        println!("p99 of stalls, {pairs} pairs, {truth:.2}: {held} of {found}");
        assert!(told((found, held)) >= least_told, "{found}");
        assert!(share((found, held)) >= 0.9, "{held} of {found}");
    }
}
