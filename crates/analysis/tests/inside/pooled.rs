use super::*;
use ringfence_experiment::class::Class;

fn counts(buckets: &[(u64, u64)]) -> Counts {
    let mut counts = Counts::default();
    counts.add(&Histogram::from(buckets.to_vec()));
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
    assert!((found.log_half_width() - off).abs() < 1e-6, "{found:?}");
}

// The jackknife of equal groups by hand: four trials, whose medians lie evenly spread in wide, even pools.
#[test]
fn a_jackknife_by_hand() {
    let even: Vec<(u64, u64)> = (0..64).map(|bucket| (bucket_floor(64 + bucket), 1000)).collect();
    let shifted = |by: usize| -> Vec<(u64, u64)> {
        even.iter().map(|(floor, count)| (bucket_floor(bucket_of(*floor) + by), *count)).collect()
    };
    let windows: Vec<(u32, Histogram)> =
        [0, 0, 4, 4].into_iter().zip(0..).map(|(by, trial)| (trial, Histogram::from(shifted(by)))).collect();
    let pools: Vec<f64> = (0..4)
        .map(|left_out| {
            let rest = windows.iter().filter(|(trial, _)| *trial != left_out);
            let rest: Vec<_> = rest.map(|(_, window)| window).collect();
            counts(Histogram::sum(rest).buckets()).quantile(Quantile::P50).unwrap().0.ln()
        })
        .collect();
    let mean = pools.iter().sum::<f64>() / 4.0;
    let error = (0.75 * pools.iter().map(|log| (log - mean).powi(2)).sum::<f64>()).sqrt();
    let found = quantile_of(&windows, Quantile::P50, 0.95).unwrap();
    // t(3) = 3.182446.
    assert!(error > 0.01 && (found.log_half_width() - 3.182_446 * error).abs() < 1e-3, "{error} {found:?}");
    let logs = quantile_logs(&windows, Quantile::P50).unwrap().logs;
    assert_eq!(logs.len(), 4);
    assert!((logs.iter().sum::<f64>() / 4.0 - found.value.ln()).abs() < 0.01);
}

// Ten trials of ten groups, eleven of which two share one, forty in tens of four: each trial is in one.
#[test]
fn groups_are_runs_of_whole_trials() {
    assert_eq!([groups(6, 1000), groups(10, 1000), groups(400, 1000)], [6, 10, 10]);
    // Where latencies are few, a group is longer.
    assert_eq!([groups(40, 60), groups(40, 75), groups(3, 60)], [6, 7, 3]);
    let whole = pairs(11, &[(1024, 3000), (1152, 3000)], &[(2048, 3000), (2304, 3000)]);
    let found = quantile_ratio(&whole, Quantile::P50, 0.95).unwrap();
    assert!((found.value - 2.0).abs() < 1e-9 && found.trials == 11, "{found:?}");
    assert_eq!(quantile_ratio_logs(&whole, Quantile::P50).unwrap().logs.len(), 10);
}

#[test]
fn too_few_latencies_say_how_many_it_takes() {
    let few = pairs(12, &[(1024, 1000)], &[(2048, 100)]);
    let refused = quantile_ratio(&few, Quantile::P99, 0.95).unwrap_err();
    let expected = NotEstimable::TooFewLatencies {
        quantile: Quantile::P99,
        counted: 1200,
        needed: 6000,
        trials: Some(61),
    };
    assert_eq!(refused, expected);
    let told = refused.told();
    assert!(
        told.starts_with("too few latencies: p99 takes about 6000") && told.contains("61 trials"),
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
    let open = bucket_floor(BUCKETS - 1);
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
