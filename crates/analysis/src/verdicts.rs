//! Arms that an experiment holds against a limit, and on which side of it each lies.

use std::collections::BTreeSet;

use ringfence_experiment::budget::Budget;
use ringfence_experiment::plan::Plan;
use ringfence_experiment::sample::Sample;
use serde::Serialize;

use crate::estimate::{Estimate, serialize_estimate};
use crate::results;

/// A case that is compared with a limit.
#[derive(Debug, Clone, Serialize)]
pub struct Judged {
    /// The case's number.
    pub case: usize,
    /// What is held: its slowdown, or of a longest time the quantity in ns.
    #[serde(serialize_with = "serialize_estimate")]
    pub figure: Estimate,
    /// Whether its whole interval keeps to the limit; `None` where it lies on both sides, or there
    /// is none.
    pub within: Option<bool>,
}

/// All that are held, every interval at `level`; empty where the experiment has no limit.
pub fn judged(plan: &Plan, samples: &[Sample], level: f64) -> Vec<Judged> {
    let measure = &plan.experiment.measure;
    let Some(decide) = &measure.decide else { return Vec::new() };
    let Some(budget) = decide.budget(measure.quantity) else { return Vec::new() };
    let of_arms = |case: usize| decide.arm.as_slice().contains(&plan.cases[case].arm);
    let judged = |(case, figure)| Judged { case, figure, within: side(&figure, budget) };
    if budget.is_absolute() {
        // Also cases that only run for others.
        let cases: BTreeSet<usize> = plan.run_cases().filter(|case| of_arms(*case)).collect();
        let reached = |case| (case, results::reached(plan, samples, case, level));
        return cases.into_iter().map(reached).map(judged).collect();
    }
    let slowdowns = results::main_estimates(plan, samples, level);
    let cases = plan.measured().into_iter().zip(slowdowns);
    cases.filter(|(case, _)| of_arms(*case)).map(judged).collect()
}

/// Whether a figure is known to keep to a budget, or to exceed it.
pub fn side(figure: &Estimate, budget: Budget) -> Option<bool> {
    let (figure, limit) = (figure.as_ref().ok()?, budget.limit());
    if figure.high <= limit {
        Some(true)
    } else if figure.low > limit {
        Some(false)
    } else {
        None
    }
}
