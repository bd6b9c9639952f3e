//! Whatever goes in, what comes out is finite or a reason.

use proptest::prelude::*;
use ringfence_analysis::estimate::{
    AaSummary, Estimate, Finding, Goal, Looks, Pair, Window, by_class, diagnostics, modes, rate,
    slowdown,
};
use ringfence_experiment::class::Class;

/// Mostly plausible numbers, often hostile ones.
fn number() -> impl Strategy<Value = f64> + Clone {
    prop_oneof![
        6 => 0.5..1e6,
        2 => Just(0.0),
        1 => prop_oneof![Just(1e-308), Just(f64::MAX), Just(5e-324), Just(1e300)],
        1 => any::<f64>(),
    ]
}

fn window() -> impl Strategy<Value = Window> + Clone {
    (number(), number()).prop_map(|(units, ns)| Window { units, ns })
}

/// Numbers that a real run could have written.
fn sound_window() -> impl Strategy<Value = Window> + Clone {
    (prop_oneof![1 => Just(0.0), 9 => 1.0..1e9], 1e3..1e9)
        .prop_map(|(units, ns)| Window { units, ns })
}

fn pairs(window: impl Strategy<Value = Window> + Clone) -> impl Strategy<Value = Vec<Pair>> {
    let class = prop_oneof![Just(Class::Sharing), Just(Class::Apart), Just(Class::Unprobed)];
    let pair = (0u32..6, class, window.clone(), window)
        .prop_map(|(trial, class, baseline, arm)| Pair { trial, class, baseline, arm });
    prop::collection::vec(pair, 0..40)
}

fn level() -> impl Strategy<Value = f64> {
    prop_oneof![8 => 0.01..0.9999, 1 => Just(0.95), 1 => any::<f64>()]
}

fn check(estimate: &Estimate, margin: f64) {
    if let Ok(interval) = estimate {
        assert!(
            0.0 < interval.low && interval.low <= interval.value && interval.value <= interval.high
        );
        assert!(
            interval.high.is_finite() && interval.spread.is_finite() && interval.level.is_finite()
        );
        assert!(interval.trials >= 2 && interval.log_half_width() >= 0.0);
    }
    // JSON has no NaN: serde_json writes it as null, in figures that are never absent.
    let finding = serde_json::to_value(Finding::new(estimate, margin)).unwrap();
    assert!(["value", "low", "high", "spread"].iter().all(|part| {
        finding["slowdown"][part].is_number() != finding["slowdown"]["unknown"].is_string()
    }));
}

fn check_all(pairs: &[Pair], level: f64) {
    for margin in [0.0, 0.01, 0.5] {
        check(&slowdown(pairs, level), margin);
    }
    let classes = by_class(pairs, level);
    assert_eq!(classes.all.pairs as usize, pairs.len());
    for class in classes.classes.values() {
        check(&class.slowdown, 0.01);
    }
    let windows: Vec<_> = pairs.iter().map(|pair| (pair.trial, pair.arm)).collect();
    check(&rate(&windows, level), 0.01);

    let found = diagnostics(pairs);
    for figure in [found.trimmed, found.p10, found.p50, found.p90].into_iter().flatten() {
        assert!(figure.is_finite() && figure >= 0.0);
    }
    assert!(found.modes.iter().all(|mode| mode.slowdown.is_finite() && mode.share > 0.0));

    let summary = AaSummary::new(&[slowdown(pairs, 0.95), slowdown(pairs, level)], 0.95);
    assert!(summary.smallest_detectable.is_none_or(f64::is_finite));
    let looks = Looks::default();
    let _ = looks.decide(0, &slowdown(pairs, looks.level_at(0)), &Goal::default());

    // JSON has no NaN: serde_json writes it as null, in figures that are never absent.
    let json = serde_json::to_value(&classes).unwrap();
    assert!(!json["all"].to_string().contains("null"));
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(2_000)
    })]

    #[test]
    fn hostile_windows_never_give_nan(pairs in pairs(window()), level in level()) {
        check_all(&pairs, level);
    }

    #[test]
    fn sound_windows_never_give_nan(pairs in pairs(sound_window()), level in level()) {
        check_all(&pairs, level);
    }

    #[test]
    fn any_logs_have_modes(
        logs in prop::collection::vec(prop_oneof![any::<f64>(), -800.0..800.0], 0..60),
    ) {
        let found = modes(&logs);
        let shares: f64 = found.iter().map(|mode| mode.share).sum();
        prop_assert!(found.len() <= 2 && found.iter().all(|mode| mode.slowdown.is_finite()));
        prop_assert!(found.is_empty() || (shares - 1.0).abs() < 1e-9);
    }

    /// The slowdown of B against A is the inverse of that of A against B.
    #[test]
    fn sides_are_symmetric(pairs in pairs(sound_window())) {
        let swapped: Vec<Pair> = pairs
            .iter()
            .map(|pair| Pair { baseline: pair.arm, arm: pair.baseline, ..*pair })
            .collect();
        if let (Ok(forth), Ok(back)) = (slowdown(&pairs, 0.95), slowdown(&swapped, 0.95)) {
            prop_assert!((forth.value * back.value - 1.0).abs() < 1e-9);
            prop_assert!((forth.low * back.high - 1.0).abs() < 1e-6);
        }
    }
}
