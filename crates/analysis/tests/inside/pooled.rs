use ringfence_experiment::class::Class;
use ringfence_experiment::histogram::{Grid, LONGEST};

use super::*;

fn counts(buckets: &[(u64, u64)]) -> Counts {
    let histogram = Histogram::from(buckets.to_vec());
    let mut counts = Frame::of([&histogram].into_iter()).empty();
    counts.add(&histogram);
    counts
}

fn pairs(trials: u32, baseline: &[(u64, u64)], arm: &[(u64, u64)]) -> Vec<LatencyPair> {
    let side = |buckets: &[(u64, u64)]| Histogram::from(buckets.to_vec());
    let pair =
        |trial| LatencyPair { trial, class: Class::Unprobed, baseline: side(baseline), arm: side(arm) };
    (0..trials).map(pair).collect()
}

// 1024 to 1152 holds 100, 1152 to 1280 as many: of 200, the 50th lies in the middle of the first.
#[test]
fn quantiles_are_interpolated() {
    let even = counts(&[(1024, 100), (1152, 100), (1280, 100), (1408, 100)]);
    let (median, off) = even.quantile(Quantile::P50).unwrap();
    assert_eq!(median, 1280.0);
    // The bucket before is as full, and the one after.
    assert_eq!(off, 0.0);
    let (p90, _) = even.quantile(Quantile::P90).unwrap();
    assert!((p90 - (1408.0 + 128.0 * 0.6)).abs() < 1e-9, "{p90}");
}

// Of a dataset that a later version went on with: all are counted in the buckets that all of them have.
#[test]
fn fine_and_coarse_buckets_are_counted_together() {
    let fine = Histogram::new(Grid::FINE, vec![(1024, 50), (1136, 50), (1152, 100)]);
    let coarse = Histogram::from(vec![(1024, 100), (1152, 100)]);
    let found = |windows: [&Histogram; 4]| {
        let windows: Vec<_> = (0..).zip(windows.map(Histogram::clone)).collect();
        quantile_of(&windows, Quantile::P50, 0.95).unwrap()
    };
    let mixed = found([&fine, &coarse, &fine, &coarse]);
    assert_eq!(mixed, found([&coarse; 4]));
    assert!((mixed.value - 1152.0).abs() < 1e-9, "{mixed:?}");
    // By themselves the fine ones say more: half of them are below 1152, in the bucket before.
    let alone = found([&fine; 4]);
    assert!((alone.value - 1152.0).abs() < 1e-9, "{alone:?}");
    assert!(alone.low > 1136.0 && mixed.low < alone.low, "{alone:?} {mixed:?}");
}

// All in one bucket: they may all be at either end.
#[test]
fn what_stands_out_may_lie_anywhere_in_its_bucket() {
    let (ns, off) = counts(&[(1024, 1000)]).quantile(Quantile::P50).unwrap();
    assert_eq!(ns, 1088.0);
    assert!((off - (1088.0f64 / 1024.0).ln()).abs() < 1e-12, "{off}");
    // A slope is none: the density before and after is on average the same.
    let (_, off) = counts(&[(1024, 250), (1152, 200), (1280, 150)]).quantile(Quantile::P50).unwrap();
    assert_eq!(off, 0.0);
    // Across a power of two buckets double in width: the same density is twice the count.
    let (_, off) = counts(&[(896, 50), (960, 50), (1024, 100), (1152, 100)]).quantile(Quantile::P50).unwrap();
    assert!(off < 1e-12, "{off}");
}

#[test]
fn equal_sides_of_one_bucket_are_known_no_better_than_it() {
    let same = pairs(20, &[(1024, 1000)], &[(1024, 1000)]);
    let found = quantile_ratio(&same, Quantile::P99, 0.95).unwrap();
    assert_eq!((found.value, found.trials), (1.0, 20));
    // p99 at 1150.72: 12 % above the bucket's floor, on either side.
    let off = 2.0 * (1150.72f64 / 1024.0).ln();
    assert!((found.log_half_width() - off).abs() < 1e-3, "{found:?}");
}

// Four trials, whose medians lie evenly spread in wide, even pools: the shares beyond the median by hand.
#[test]
fn the_interval_of_a_share_by_hand() {
    let even: Vec<(u64, u64)> = (0..64).map(|bucket| (Grid::EIGHTHS.floor(64 + bucket), 1000)).collect();
    let shifted = |by: usize| -> Vec<(u64, u64)> {
        even.iter()
            .map(|(floor, count)| (Grid::EIGHTHS.floor(Grid::EIGHTHS.bucket_of(*floor) + by), *count))
            .collect()
    };
    let windows: Vec<(u32, Histogram)> =
        [0, 0, 4, 4].into_iter().zip(0..).map(|(by, trial)| (trial, Histogram::from(shifted(by)))).collect();
    let pooled = counts(Histogram::sum(windows.iter().map(|(_, window)| window)).buckets());
    // The median of the pool is where the shares beyond it of the early and the late are as far from a half: two buckets of
    // 64, which is 2000 of 64000.
    let error = (4.0f64 / 3.0 * 4.0 * 2000.0f64.powi(2)).sqrt() / 256_000.0;
    // t(3) = 3.182446.
    let [low, high] = [-1.0, 1.0].map(|side| pooled.at(0.5 + side * 3.182_446 * error).unwrap().0);
    let found = quantile_of(&windows, Quantile::P50, 0.95).unwrap();
    assert!(found.high > found.low * 1.5, "{found:?}");
    assert!((found.low / low).ln().abs() < 1e-3 && (found.high / high).ln().abs() < 1e-3, "{found:?}");
    let logs = quantile_logs(&windows, Quantile::P50).unwrap().logs;
    assert_eq!(logs.len(), 4);
    assert!((logs.iter().sum::<f64>() / 4.0 - found.value.ln()).abs() < 0.01);
}

// Those of both sides are put together as legs of a right angle.
#[test]
fn the_bounds_of_a_ratio_are_made_of_those_of_its_sides() {
    let buckets: Vec<(u64, u64)> = (0..40).map(|bucket| (Grid::EIGHTHS.floor(64 + bucket), 200)).collect();
    let twice: Vec<(u64, u64)> = buckets.iter().map(|(floor, count)| (floor * 2, *count)).collect();
    let side = |buckets: &[(u64, u64)]| -> Vec<(u32, Histogram)> {
        (0..8).map(|trial| (trial, Histogram::from(buckets.to_vec()))).collect()
    };
    let [alone, beside] = [&buckets, &twice].map(|own| quantile_of(&side(own), Quantile::P90, 0.95).unwrap());
    let ratio = quantile_ratio(&pairs(8, &buckets, &twice), Quantile::P90, 0.95).unwrap();
    let log = |x: f64| x.ln();
    let down = f64::hypot(log(beside.value / beside.low), log(alone.high / alone.value));
    let up = f64::hypot(log(beside.high / beside.value), log(alone.value / alone.low));
    assert!((ratio.value - 2.0).abs() < 1e-9, "{ratio:?}");
    assert!((log(ratio.value / ratio.low) - down).abs() < 1e-9, "{ratio:?}");
    assert!((log(ratio.high / ratio.value) - up).abs() < 1e-9, "{ratio:?}");
}

// Where one trial has all of those that are long, they tell as little as if there were few.
#[test]
fn bursts_take_more_latencies() {
    let with = |every: u32, long: u64| -> Vec<LatencyPair> {
        let side = |trial: u32| {
            let own = if trial.is_multiple_of(every) { long } else { 0 };
            Histogram::from(vec![(1024, 1000 - own), (9216, own)])
        };
        let pair = |trial| LatencyPair {
            trial,
            class: Class::Unprobed,
            baseline: Histogram::from(vec![(1024, 985), (9216, 15)]),
            arm: side(trial),
        };
        (0..10).map(pair).collect()
    };
    assert!(quantile_ratio(&with(2, 14), Quantile::P99, 0.95).is_ok());
    let refused = quantile_ratio(&with(10, 400), Quantile::P99, 0.95).unwrap_err();
    let NotEstimable::TrialsDiffer { counted, needed, trials, .. } = refused else { panic!("{refused}") };
    // 90 more than the ten that are to be expected, and ten less in each of nine others: (8100 + 900) * 10 / 9 in place of 99,
    // and t(9) is 2.262157.
    let expected = 1.01 * 2.262_157f64.powi(2) * 10_000.0 / 99.0 * 100.0;
    assert_eq!((counted, needed, trials), (10_000, expected.ceil() as u64, Some(53)));
    let told = refused.told();
    assert!(
        told.starts_with("trials differ: 10000 latencies are enough") && !told.contains("too few"),
        "{told}"
    );
    assert_eq!(refused.short(), "trials differ");
    // The figure is there all the same: long in one trial, short in nine.
    let seen = quantile_ratio_observed(&with(10, 400), Quantile::P99).unwrap();
    assert!(seen.low < 0.2 && seen.value > 0.9 && seen.high >= seen.value && seen.trials == 10, "{seen:?}");
}

// Ten trials of ten groups, eleven of which two share one, forty in tens of four: each trial is in one.
#[test]
fn groups_are_runs_of_whole_trials() {
    assert_eq!([groups(6), groups(10), groups(400)], [6, 10, 10]);
    assert_eq!((members(9, 10, 11), members(0, 10, 11), members(3, 10, 40)), (9..11, 0..1, 12..16));
    let whole = pairs(11, &[(1024, 3000), (1152, 3000)], &[(2048, 3000), (2304, 3000)]);
    let found = quantile_ratio(&whole, Quantile::P50, 0.95).unwrap();
    assert!((found.value - 2.0).abs() < 1e-9 && found.trials == 11, "{found:?}");
    assert_eq!(quantile_ratio_logs(&whole, Quantile::P50).unwrap().logs.len(), 10);
}

#[test]
fn too_few_latencies_say_how_many_it_takes() {
    let few = pairs(12, &[(1024, 1000)], &[(2048, 50)]);
    let refused = quantile_ratio(&few, Quantile::P99, 0.95).unwrap_err();
    let expected = NotEstimable::TooFewLatencies {
        quantile: Quantile::P99,
        counted: 600,
        needed: 1000,
        trials: Some(20),
    };
    assert_eq!(refused, expected);
    let told = refused.told();
    assert!(
        told.starts_with("too few latencies: p99 takes about 1000") && told.contains("20 trials"),
        "{told}"
    );
    assert!(quantile_ratio(&few, Quantile::P90, 0.95).is_ok());
    // One that never came.
    let none = pairs(12, &[(1024, 1000)], &[]);
    let refused = quantile_ratio(&none, Quantile::P50, 0.95).unwrap_err();
    assert!(matches!(refused, NotEstimable::TooFewLatencies { counted: 0, trials: None, .. }), "{refused}");
    let json = serde_json::to_value(expected).unwrap();
    assert_eq!((&json["reason"], &json["quantile"]), (&"too_few_latencies".into(), &"p99".into()));
}

#[test]
fn trials_come_first() {
    let plenty: &[(u64, u64)] = &[(1024, 100_000), (1152, 100_000)];
    let refused = |trials| quantile_ratio(&pairs(trials, plenty, plenty), Quantile::P99, 0.95);
    assert_eq!(refused(0), Err(NotEstimable::NothingMeasured));
    assert_eq!(refused(3), Err(NotEstimable::TooFewTrials { trials: 3 }));
    assert!(refused(4).is_ok());
    assert_eq!(
        quantile_ratio(&pairs(4, plenty, plenty), Quantile::P99, 1.0),
        Err(NotEstimable::InvalidLevel)
    );
}

#[test]
fn only_trials_with_both_sides_are_compared() {
    let windows = |trials: std::ops::Range<u32>, floor| -> Vec<(u32, Histogram)> {
        trials.map(|trial| (trial, Histogram::from(vec![(floor, 3000), (floor * 9 / 8, 3000)]))).collect()
    };
    let found = quantile_between(&windows(0..8, 2048), &windows(3..9, 1024), Quantile::P50, 0.95).unwrap();
    assert_eq!(found.trials, 5);
    assert!((found.value - 2.0).abs() < 1e-9);
}

#[test]
fn the_last_bucket_has_no_end() {
    let open = LONGEST;
    let refused = quantile_ratio(&pairs(8, &[(1024, 9000)], &[(open, 9000)]), Quantile::P99, 0.95);
    assert_eq!(refused, Err(NotEstimable::TooLongToTell { quantile: Quantile::P99 }));
    assert!(refused.unwrap_err().to_string().contains("16 s"), "{}", refused.unwrap_err());
}

// Whatever a file says.
#[test]
fn no_counts_break_it() {
    for count in [1, u64::from(u32::MAX), u64::MAX] {
        for floor in [0, 1, 7, 1 << 40, u64::MAX] {
            let odd = pairs(6, &[(floor, count), (floor / 3, 70_000)], &[(0, count), (100, 70_000)]);
            for quantile in Quantile::ALL {
                if let Ok(found) = quantile_ratio(&odd, quantile, 0.95) {
                    assert!(
                        found.low > 0.0 && found.high.is_finite() && found.low <= found.value,
                        "{found:?}"
                    );
                }
            }
        }
    }
}
