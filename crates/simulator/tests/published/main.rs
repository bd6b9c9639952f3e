//! Published curves of microbenchmarks, beside what the machine files make of them.
//!
//! These curves say how good the model of memory is. The figures that described machines are judged
//! by, those of the notes, are not among them. Too long for every change: `cargo test --release -p
//! ringfence-simulator --test published -- --ignored --nocapture`.

mod curves;
mod holdout;
mod loops;
mod shared;

use curves::{CURVES, Curve};
use holdout::FRESH;

// Of a curve, in per cent: one error for each point.
struct Outcome {
    curve: &'static Curve,
    simulated: Vec<f64>,
}

impl Outcome {
    fn errors(&self, used: bool) -> impl Iterator<Item = f64> {
        let points = self.curve.published().zip(&self.simulated);
        points
            .filter(move |((x, _), _)| self.curve.used.contains(x) == used)
            .map(|((_, published), simulated)| (simulated / published - 1.0) * 100.0)
    }
}

fn mean(errors: impl Iterator<Item = f64>) -> (f64, usize) {
    let all: Vec<f64> = errors.map(f64::abs).collect();
    (all.iter().sum::<f64>() / all.len().max(1) as f64, all.len())
}

fn simulate(curves: &'static [Curve]) -> Vec<Outcome> {
    let only = std::env::var("RINGFENCE_CURVE").unwrap_or_default();
    let chosen = curves.iter().filter(|curve| curve.title().contains(&only));
    let outcomes: Vec<Outcome> = std::thread::scope(|scope| {
        let run = |curve: &'static Curve| (curve, scope.spawn(|| curve.simulate()));
        let started: Vec<_> = chosen.map(run).collect();
        let joined = started
            .into_iter()
            .map(|(curve, thread)| Outcome { curve, simulated: thread.join().unwrap() });
        joined.collect()
    });
    for outcome in &outcomes {
        println!("{}", outcome.curve.title());
        for ((x, published), simulated) in outcome.curve.published().zip(&outcome.simulated) {
            let used = if outcome.curve.used.contains(&x) { "used" } else { "" };
            let error = (simulated / published - 1.0) * 100.0;
            println!("  {x:>6} {published:>9.2} {simulated:>9.2} {error:>+7.1} %  {used}");
        }
    }
    outcomes
}

fn hold(outcomes: &[Outcome]) {
    let machines: std::collections::BTreeSet<&str> =
        outcomes.iter().map(|outcome| outcome.curve.machine).collect();
    for machine in machines {
        let of_it = || outcomes.iter().filter(|outcome| outcome.curve.machine == machine);
        let (fitted, used) = mean(of_it().flat_map(|outcome| outcome.errors(true)));
        let (error, left_out) = mean(of_it().flat_map(|outcome| outcome.errors(false)));
        if used > 0 {
            println!("{machine}: mean error {fitted:.1} % of {used} points that were used");
        }
        println!("{machine}: mean error {error:.1} % of {left_out} points that were left out");
        assert!(error <= 15.0, "{machine}: {error:.1} %");
    }
}

#[test]
#[ignore = "takes minutes: scripts/nightly runs it"]
fn curves_that_were_left_out_come_out_within_15_percent() {
    hold(&simulate(CURVES));
}

#[test]
#[ignore = "takes minutes: scripts/nightly runs it"]
fn curves_that_nobody_had_simulated_come_out_within_15_percent() {
    hold(&simulate(FRESH));
}
