use super::*;
use ringfence_analysis::estimate::{Interval, NotEstimable};
use ringfence_experiment::Arm;
use ringfence_experiment::quantity::Quantity;
use ringfence_experiment::units::{Share, Span};

fn around(value: f64) -> Estimate {
    Ok(Interval {
        value,
        low: value * 0.98,
        high: value * 1.02,
        level: 0.95,
        trials: 10,
        spread: 0.02,
        slack: 0.0,
    })
}

fn tried(name: &str, victim: Estimate, price: Price) -> Tried {
    let arm = Arm::new(name, &[], None);
    let candidate = Candidate {
        lever: name.into(),
        arm,
        role: None,
        keep: String::new(),
        caveat: None,
        commands: Vec::new(),
        price_in_cpu_time: false,
    };
    Tried { candidate, victim, reached: None, price }
}

fn budget(share: f64) -> Budget {
    Budget::Slowdown(Share(share))
}

#[test]
fn the_cheapest_that_seems_to_meet_the_budget_comes_first() {
    let all = [
        tried("too much", around(1.2), Price::Slowdown(around(0.9))),
        tried("dear", around(1.0), Price::Slowdown(around(4.0))),
        tried("free", around(1.04), Price::Slowdown(around(1.002))),
        tried("free and gentler", around(1.01), Price::Slowdown(around(1.004))),
        tried("unseen", around(1.03), Price::Unseen("why".into())),
        tried("unknown", Err(NotEstimable::NothingMeasured), Price::Slowdown(around(1.0))),
        tried("unpriced", around(1.0), Price::Slowdown(Err(NotEstimable::NothingMeasured))),
        tried("gains", around(1.02), Price::Slowdown(around(0.8))),
    ];
    assert_eq!(candidates(&all, budget(0.05)), [7, 3, 4, 2, 1]);
    // What may meet the budget comes last, the nearest first.
    assert_eq!(candidates(&all, budget(0.005)), [1, 3, 7]);
    assert!(candidates(&all[..1], budget(0.05)).is_empty());
}

#[test]
fn a_time_is_held_against_what_it_bounds_and_not_against_the_slowdown() {
    let reached = |name: &str, slowdown: f64, ns: f64, price: f64| Tried {
        reached: Some(around(ns)),
        ..tried(name, around(slowdown), Price::Slowdown(around(price)))
    };
    let all = [
        reached("a small slowdown, and too slow", 1.01, 6e6, 1.0),
        reached("near", 9.0, 5.05e6, 1.0),
        reached("dear", 8.0, 3e6, 4.0),
        reached("free", 8.0, 4e6, 1.0),
    ];
    assert_eq!(candidates(&all, Budget::AtMost(Quantity::Mean, Span::ms(5))), [3, 2, 1]);
}
