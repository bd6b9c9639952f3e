//! Curves of made-up victims.

use ringfence_analysis::estimate::{Estimate, Finding, Interval, NotEstimable};
use ringfence_machine::units::Bytes;
use ringfence_studies::sensitivity::{Curve, Point, Sensitivity};

use crate::golden::check_both;

// Slowdowns at 1, 4, 16... MiB, each known to 2 %.
fn curve(
    victim: &str,
    polluter: &str,
    slowdowns: &[f64],
    from: Option<u64>,
    worst: Option<u64>,
) -> Curve {
    let finding = |value: f64, half: f64| {
        let (low, high) = (value * (1.0 - half), value * (1.0 + half));
        let estimate: Estimate = match value.is_finite() {
            true => {
                Ok(Interval { value, low, high, level: 0.95, trials: 20, spread: 0.03, slack: 0.0 })
            }
            false => Err(NotEstimable::Stalled { baseline: 0, arm: 20, of: 20 }),
        };
        Finding::new(&estimate, 0.01)
    };
    let points = slowdowns.iter().enumerate().map(|(index, value)| Point {
        footprint: Bytes::mib(1 << (2 * index)),
        finding: finding(*value, 0.02),
        together: finding(*value, 0.04),
    });
    Curve {
        victim: victim.into(),
        polluter: polluter.into(),
        points: points.collect(),
        from: from.map(Bytes::mib),
        worst: worst.map(Bytes::mib),
        perhaps: Vec::new(),
    }
}

#[test]
fn curves() {
    let chase =
        curve("chase footprint=4MiB", "write", &[1.002, 1.11, 1.62, 1.58], Some(4), Some(16));
    let one = Sensitivity::of(vec![chase.clone()], 0.95);
    check_both("sensitivity", |style| ringfence_report::sensitivity(&one, style));
    let several = Sensitivity::of(
        vec![
            chase,
            curve("chase footprint=4MiB", "chase", &[0.97, 1.003, 1.21], Some(16), Some(16)),
            curve("alu", "write", &[1.001, 1.0, 0.999], None, None),
            curve("a program with 'arguments'", "write", &[1.0, 3.4, 1.01], None, Some(4)),
        ],
        0.95,
    );
    check_both("sensitivity-several", |style| ringfence_report::sensitivity(&several, style));
    let none = Sensitivity::of(
        vec![
            curve("alu", "write", &[1.0, 1.0], None, None),
            curve("idle-ish", "write", &[0.999, 1.0], None, None),
        ],
        0.95,
    );
    check_both("sensitivity-none", |style| ringfence_report::sensitivity(&none, style));
}

// What cannot be told apart, what is only perhaps so, and what has no figure.
#[test]
fn nobody_is_crowned_without_an_interval() {
    let mut perhaps = curve("mcf", "write", &[1.0, 1.03, 1.62], Some(16), Some(16));
    perhaps.perhaps = vec![Bytes::mib(4)];
    let curves =
        vec![curve("chase footprint=4MiB", "write", &[1.0, 1.64], Some(4), Some(4)), perhaps];
    let close = Sensitivity::of(curves, 0.95);
    check_both("sensitivity-close", |style| ringfence_report::sensitivity(&close, style));
    let curves = vec![
        curve("mcf", "write", &[1.0, f64::INFINITY], None, None),
        curve("alu", "write", &[1.001, 1.0], None, None),
    ];
    let still = Sensitivity::of(curves, 0.95);
    check_both("sensitivity-still", |style| ringfence_report::sensitivity(&still, style));
    let few = Finding::new(&Err(NotEstimable::TooFewTrials { trials: 2 }), 0.01);
    let mut trials = curve("alu", "write", &[1.0, 1.0], None, None);
    trials.points.iter_mut().for_each(|point| (point.finding, point.together) = (few, few));
    let few = Sensitivity::of(vec![trials], 0.95);
    check_both("sensitivity-few", |style| ringfence_report::sensitivity(&few, style));
}
