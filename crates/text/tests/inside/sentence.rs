use super::*;
use ringfence_analysis::estimate::NotEstimable;

fn said(value: f64, low: f64, high: f64) -> String {
    let interval = Interval { value, low, high, level: 0.95, trials: 10, spread: 0.02, slack: 0.0 };
    sentence(&Finding::new(&Ok(interval), 0.01))
}

#[test]
fn small_effects_are_percentages() {
    assert_eq!(said(1.032, 1.029, 1.035), "slower by 3.2 % [2.9, 3.5]");
    assert_eq!(said(0.9, 0.87, 0.93), "faster by 10 % [7, 13]");
    assert_eq!(said(1.9, 1.8, 2.0), "slower by 90 % [80, 100]");
}

#[test]
fn large_effects_are_factors() {
    assert_eq!(said(12.1, 11.8, 12.4), "12.1x slower [11.8, 12.4]");
    assert_eq!(said(0.25, 0.2, 0.3125), "4.0x faster [3.2, 5.0]");
}

#[test]
fn an_effect_never_reads_as_none() {
    assert_eq!(said(1.012, 1.0002, 1.024), "slower by 1.20 % [0.02, 2.40]");
    assert_eq!(said(3.0, 1.04, 9.0), "3.00x slower [1.04, 9.00]");
}

#[test]
fn no_effect_names_the_margin() {
    assert_eq!(said(1.0005, 0.998, 1.003), "no change larger than 1 % [-0.2, +0.3]");
    assert_eq!(said(1.0, 1.0, 1.0), "no change larger than 1 % [0.0, 0.0]");
}

#[test]
fn undecided_says_what_it_takes() {
    // Spread 0.02 at 95 %, half of ln 1.01: 65 trials (t = 1.9977, half-width 0.004956).
    assert_eq!(said(1.01, 0.97, 1.05), "undecided: [-3, +5] %; about 65 trials would settle it");
    let wide = Interval { value: 1.0, low: 0.1, high: 10.0, level: 0.95, trials: 3, spread: 9.0, slack: 0.0 };
    let finding = Finding::new(&Ok(wide), 0.01);
    assert_eq!(sentence(&finding), "undecided: [-90, +900] %; no sensible number of trials would settle it");
}

#[test]
fn no_figure_says_why() {
    let stalled = NotEstimable::Stalled { baseline: 0, arm: 2, of: 10 };
    assert_eq!(
        sentence(&Finding::new(&Err(stalled), 0.01)),
        "not estimable: no work was done in whole trials: baseline stalled in 0, arm in 2 of 10 trials"
    );
}

// Whatever the estimators give: what is finite and positive.
fn interval() -> impl proptest::strategy::Strategy<Value = Interval> {
    use proptest::prelude::*;
    let size = prop_oneof![6 => -3.0..3.0f64, 1 => -700.0..700.0f64];
    (size, prop_oneof![0.0..1.0f64, 0.0..700.0f64], 0.0..1.0f64).prop_map(|(low, width, part)| {
        let high = (low + width).min(709.0);
        let [low, value, high] = [low, low + part * (high - low), high].map(f64::exp);
        Interval {
            value: value.clamp(low, high),
            low,
            high,
            level: 0.95,
            trials: 10,
            spread: 0.02,
            slack: 0.0,
        }
    })
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn no_sentence_says_nan(interval in interval(), margin in 0.0..0.5f64) {
        let said = sentence(&Finding::new(&Ok(interval), margin));
        assert!(!said.contains("NaN") && !said.contains("inf"), "{said}");
    }
}
