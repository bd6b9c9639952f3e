//! Latencies of made-up cases.

use ringfence_analysis::latency::{CaseLatencies, LatencyQuantile, MissShare};
use ringfence_experiment::histogram::Histogram;
use ringfence_experiment::quantity::Quantile;
use ringfence_experiment::scale::Scale;

use crate::golden::check;

pub const SCALE: Scale =
    Scale { clock_ns: 18.3, hit_ns: 19.4, hit_high_ns: 26.0, miss_ns: 104.0, miss_low_ns: 88.2 };

/// As of six trials that differ a little.
pub fn quantiles(one: &Histogram) -> Vec<LatencyQuantile> {
    let of_trial = |trial: u64| {
        let varied = one
            .buckets()
            .iter()
            .zip(trial..)
            .map(|((floor, count), n)| (*floor, count * (10 + n % 3)));
        (trial as u32, Histogram::from(varied.collect::<Vec<_>>()))
    };
    let windows: Vec<(u32, Histogram)> = (0..6).map(of_trial).collect();
    let of = |quantile| LatencyQuantile::of(&windows, quantile, 0.95);
    Quantile::ALL.map(of).into()
}

fn case(arm: &str, label: &str, buckets: &[(u64, u64)]) -> CaseLatencies {
    let histogram = Histogram::from(buckets.to_vec());
    let value = histogram.from_floor(88) as f64 / histogram.total() as f64;
    let bounds = (value * 0.8, (value * 1.2).min(1.0));
    CaseLatencies {
        of_loads: true,
        case: 0,
        arm: arm.into(),
        label: label.into(),
        role: "reader".into(),
        unit: "reads",
        quantiles: quantiles(&histogram),
        histogram,
        misses: Some(MissShare {
            value,
            low: Some(bounds.0),
            high: Some(bounds.1),
            level: 0.95,
            trials: 10,
            from_ns: 88,
        }),
        counted_misses: Some(value * 1.1),
    }
}

/// A quiet case and two that are disturbed.
pub fn made_up() -> Vec<CaseLatencies> {
    vec![
        case("idle", "", &[(20, 120_000), (22, 40_000), (44, 3800), (104, 7), (1 << 20, 1)]),
        case(
            "beside",
            "stream",
            &[(20, 60_000), (22, 20_000), (48, 9000), (104, 70_000), (320, 400)],
        ),
        case("beside", "write instruction=clflushopt", &[(20, 30), (88, 150_000), (104, 13_000)]),
    ]
}

#[test]
fn cases_with_and_without_misses() {
    let all = made_up();
    check("latencies", |style| ringfence_report::latencies(&all, Some(&SCALE), style));
    // Reads of cached lines take as long as others: as an emulator has it.
    let alike = Scale { hit_high_ns: 95.0, ..SCALE };
    assert_eq!(alike.threshold_ns(), None);
    let untold: Vec<CaseLatencies> = all[..1]
        .iter()
        .map(|one| CaseLatencies { misses: None, counted_misses: None, ..one.clone() })
        .collect();
    check("latencies-alike", |style| ringfence_report::latencies(&untold, Some(&alike), style));
    check("latencies-no-scale", |style| ringfence_report::latencies(&untold, None, style));
    assert_eq!(
        ringfence_report::latencies(&[], Some(&SCALE), &ringfence_report::Style::plain(80)),
        ""
    );
}

#[test]
fn roles_that_differ_are_named() {
    let mut all = made_up();
    all.truncate(2);
    all[1].role = "other".into();
    // One trial gives no interval.
    let share = all[1].misses.unwrap();
    all[1].misses = Some(MissShare { low: None, high: None, trials: 1, ..share });
    check("latencies-roles", |style| ringfence_report::latencies(&all, Some(&SCALE), style));
}

// A value, its mark and its range, and nothing about too few.
#[test]
fn a_quantile_of_trials_that_differ_is_marked_with_its_range() {
    let trial = |trial: u32| {
        let slow = if trial == 2 { 9000 } else { 0 };
        (trial, Histogram::from(vec![(24, 10_000 - slow), (4096, slow)]))
    };
    let windows: Vec<(u32, Histogram)> = (0..6).map(trial).collect();
    let mut one = case("idle", "", &[(24, 51_000), (4096, 9000)]);
    one.quantiles =
        Quantile::ALL.map(|quantile| LatencyQuantile::of(&windows, quantile, 0.95)).into();
    let wide = ringfence_report::latencies(
        std::slice::from_ref(&one),
        None,
        &ringfence_report::Style::plain(200),
    );
    assert!(wide.contains("~4.27 us (25.8 ns to 4.55 us)"), "{wide}");
    assert!(
        wide.contains("~: no interval and no verdict, because trials differ too much"),
        "{wide}"
    );
    let row = wide.lines().find(|line| line.starts_with("idle")).unwrap();
    assert!(!row.contains("too few"), "{wide}");
}

// As the coloured table of the page has it.
#[test]
fn a_quantile_that_too_few_latencies_bear_is_in_no_text() {
    let few = [case("idle", "", &[(20, 6), (44, 4), (1 << 20, 1)])];
    let told: Vec<bool> = few[0].quantiles.iter().map(|of| of.ns.is_ok()).collect();
    assert_eq!(told, [true, false, false, false], "{:?}", few[0].quantiles);
    for columns in [80, 120, 200] {
        let text = ringfence_report::latencies(
            &few,
            Some(&SCALE),
            &ringfence_report::Style::plain(columns),
        );
        // Twice as a figure, and once in the notes.
        assert_eq!(text.matches("too few").count(), 3, "{text}");
        assert!(text.contains("p50 20 ns over 11 latencies"), "{text}");
    }
}
