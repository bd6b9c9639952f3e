//! Every figure that a measurement may bring, and those that it should not.

use std::time::Duration;

use ringfence_analysis::estimate::{Interval, NotEstimable};

use super::*;

fn interval(value: f64, low: f64, high: f64) -> Interval {
    Interval { value, low, high, level: 0.95, trials: 10, spread: 0.02, slack: 0.0 }
}

#[test]
fn the_interval_decides_the_digits() {
    for ((value, low, high), text) in [
        ((24.31, 23.87, 24.79), "24.3 ns [23.9, 24.8]"),
        ((24.31, 24.15, 24.46), "24.31 ns [24.15, 24.46]"),
        ((24.31, 20.0, 28.0), "24 ns [20, 28]"),
        ((241.0, 140.0, 320.0), "241 ns [140, 320]"),
        ((0.0523, 0.0521, 0.0525), "0.0523 ns [0.0521, 0.0525]"),
        ((3.0, 3.0, 3.0), "3.00 ns [3.00, 3.00]"),
        ((300.0, 300.0, 300.0), "300 ns [300, 300]"),
        ((0.0, 0.0, 0.0), "0 ns [0, 0]"),
        ((0.3, 0.001, 90.0), "0.3 ns [0.0, 90.0]"),
        ((9_999.0, 9_990.0, 10_020.0), "9999 ns [9990, 10020]"),
        ((12_340.0, 12_300.0, 12_380.0), "12.34 us [12.30, 12.38]"),
        ((3.95e10, 3.9e10, 4.0e10), "39.5 s [39.0, 40.0]"),
        // Simulated, it may have hardly a width.
        ((107.719_99, 107.719_94, 107.720_03), "107.7 ns [107.7, 107.7]"),
        ((1.000_004, 1.000_003, 1.000_005), "1.000 ns [1.000, 1.000]"),
        ((12_340.0, 12_339.99, 12_340.01), "12.34 us [12.34, 12.34]"),
        ((1e-12, 1e-13, 1e-11), "1.00e-12 ns [1.00e-13, 1.00e-11]"),
        ((1e30, 1e29, 1e31), "1.00e21 s [1.00e20, 1.00e22]"),
        ((24.3, 1e-9, 1e18), "2.43e1 ns [1.00e-9, 1.00e18]"),
    ] {
        assert_eq!(ns_interval(&interval(value, low, high)), text);
    }
}

#[test]
fn throughput_is_the_inverse() {
    let ns = interval(24.3, 23.9, 24.8);
    assert_eq!(throughput_interval(64, &ns), "2.63 GB/s [2.58, 2.68]");
    assert_eq!(throughput_interval(64, &interval(243.0, 239.0, 248.0)), "263 MB/s [258, 268]");
    assert_eq!(throughput_interval(1, &interval(1e6, 1e6, 1e6)), "1.00 kB/s [1.00, 1.00]");
    assert_eq!(throughput_interval(1, &interval(1e8, 9e7, 1.2e8)), "10.0 B/s [8.3, 11.1]");
    assert_eq!(throughput_interval(64, &interval(0.0, 0.0, 0.0)), "-");
    assert_eq!(throughput_interval(0, &ns), "0 B/s [0, 0]");
}

#[test]
fn slowdowns_are_percentages_or_factors() {
    for ((value, low, high), text) in [
        ((1.032, 1.029, 1.035), "+3.2 % [+2.9, +3.5]"),
        ((12.1, 11.8, 12.4), "12.1x [11.8, 12.4]"),
        ((2.0, 0.4, 9.4), "2.0x [0.4, 9.4]"),
        ((2.0, 1.9, 2.1), "2.00x [1.90, 2.10]"),
        ((1.9, 1.8, 2.0), "+90 % [+80, +100]"),
        ((0.9, 0.87, 0.93), "-10 % [-13, -7]"),
        ((1.0, 1.0, 1.0), "0 % [0, 0]"),
        ((1.0006, 0.998, 1.003), "+0.1 % [-0.2, +0.3]"),
        ((0.9999, 0.99, 1.01), "0.0 % [-1.0, +1.0]"),
        // What is more than nothing reads as more than nothing.
        ((1.012, 1.0002, 1.024), "+1.20 % [+0.02, +2.40]"),
        ((0.988, 0.976, 0.9998), "-1.20 % [-2.40, -0.02]"),
        ((1.000_000_05, 1.000_000_04, 1.000_000_06), "0.00 % [0.00, 0.00]"),
        ((0.499_964, 0.499_963, 0.499_965), "-50.00 % [-50.00, -50.00]"),
        ((17.719_99, 17.719_94, 17.720_03), "17.72x [17.72, 17.72]"),
        ((3.0, 1.04, 9.0), "3.00x [1.04, 9.00]"),
        ((1.5, 0.1, 22.0), "+50 % [-90, +2100]"),
        ((0.05, 0.04, 0.06), "0.050x [0.040, 0.060]"),
        ((1e9, 1e8, 1e10), "1.00e9x [1.00e8, 1.00e10]"),
        ((1.0, 1e-9, 1e9), "1.00e0x [1.00e-9, 1.00e9]"),
    ] {
        assert_eq!(slowdown(&interval(value, low, high)), text);
    }
}

#[test]
fn rates_without_an_interval_have_three_digits() {
    for (rate, text) in [
        (0.0, "0 B/s"),
        (3.414e9, "3.41 GB/s"),
        (61e6, "61.0 MB/s"),
        (999.7e6, "1.00 GB/s"),
        (999.2e6, "999 MB/s"),
        (12.0, "12.0 B/s"),
        (1e-9, "1.00e-9 B/s"),
        (1e30, "1.00e21 GB/s"),
        (f64::NAN, "-"),
        (-1.0, "-"),
    ] {
        assert_eq!(bytes_per_s(rate), text);
    }
    assert_eq!(units_per_s(41.23e6, "loads"), "41.2 M loads/s");
    assert_eq!(units_per_s(0.0, "lines"), "0 lines/s");
    assert_eq!(units_per_s(9_999.0, "runs"), "9999 runs/s");
    assert_eq!(units_per_s(0.025, "runs"), "0.0250 runs/s");
    assert_eq!(units_per_s(f64::INFINITY, "runs"), "-");
    assert_eq!(
        (ns(82.0).as_str(), ns(999.9).as_str(), ns(1250.0).as_str()),
        ("82.0 ns", "1.00 us", "1.25 us")
    );
}

#[test]
fn durations_are_said_in_two_units_at_most() {
    for (seconds, text) in [
        (0.0, "0 s"),
        (4e-9, "4.00 ns"),
        (0.85, "850 ms"),
        (0.9997, "1.0 s"),
        (12.34, "12.3 s"),
        (59.96, "1 min"),
        (80.0, "1 min 20 s"),
        (3_600.0, "1 h"),
        (3_599.7, "1 h"),
        (7_500.0, "2 h 5 min"),
        (86_390.0, "1 d"),
        (273_600.0, "3 d 4 h"),
        (1e12, "11574074 d 2 h"),
    ] {
        assert_eq!(duration(Duration::from_secs_f64(seconds)), text, "{seconds}");
    }
}

#[test]
fn counts_and_shares() {
    let counts: Vec<String> = [0, 999, 1234, 12_345, 123_456, 1_234_567].into_iter().map(count).collect();
    assert_eq!(counts, ["0", "999", "1234", "12 345", "123 456", "1 234 567"]);
    assert_eq!(count(u64::MAX), "18 446 744 073 709 551 615");
    let shares: Vec<String> = [0.0, 0.95, 0.983_33, 0.004, 1e-9, 1.0, 0.1].into_iter().map(percent).collect();
    assert_eq!(shares, ["0 %", "95 %", "98.33 %", "0.4 %", "< 0.01 %", "100 %", "10 %"]);
    assert_eq!(percent(f64::NAN), "-");
}

#[test]
fn what_is_not_estimable_says_why() {
    let reason = NotEstimable::TooFewTrials { trials: 1 };
    let text = "too few trials: 1, and a figure takes at least 4";
    assert_eq!(slowdown_estimate(&Err(reason)), text);
    assert_eq!(ns_estimate(&Err(reason)), text);
    assert_eq!(ns_estimate(&Ok(interval(24.3, 23.9, 24.8))), "24.3 ns [23.9, 24.8]");
}

#[test]
fn no_input_shows_as_nan_or_infinity() {
    let figures = [
        0.0,
        -0.0,
        f64::MIN_POSITIVE,
        5e-324,
        1e-9,
        0.1,
        0.999_999_999,
        1.0,
        1.000_000_001,
        9.999_999,
        1e6,
        f64::MAX,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
        -1.0,
    ];
    for value in figures {
        for low in figures {
            for high in figures {
                let one = interval(value, low, high);
                for text in [ns_interval(&one), throughput_interval(64, &one), slowdown(&one)] {
                    let lower = text.to_lowercase();
                    assert!(!lower.contains("nan") && !lower.contains("inf"), "{one:?}: {text}");
                    assert!(text.len() < 90 && !text.is_empty(), "{one:?}: {text}");
                }
            }
        }
        for text in [bytes_per_s(value), units_per_s(value, "x"), ns(value), percent(value)] {
            assert!(!text.to_lowercase().contains("nan") && !text.contains("inf"), "{value}: {text}");
        }
    }
}

#[test]
fn precisions_are_coarse() {
    let texts = [0.0, 1e-6, 0.0042, 0.0213, 0.153, 3.0, 1e9].map(coarse);
    assert_eq!(texts, ["0 %", "< 0.01 %", "0.42 %", "2.1 %", "15 %", "300 %", "more than 1000 %"]);
}
