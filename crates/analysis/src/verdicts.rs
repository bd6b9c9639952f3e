//! Arms that an experiment holds against a limit, and on which side of it each lies.

use std::collections::BTreeSet;

use ringfence_experiment::budget::Budget;
use ringfence_experiment::plan::Plan;
use ringfence_experiment::quantity::{Quantile, Quantity};
use ringfence_experiment::sample::Sample;
use serde::Serialize;

use crate::estimate::{Estimate, Interval, serialize_estimate};
use crate::results;

/// A case that is compared with a limit.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Judged {
    /// The case's number.
    pub case: usize,
    /// What is held: its slowdown, or of a longest time the quantity in ns.
    #[serde(serialize_with = "serialize_estimate")]
    pub figure: Estimate,
    /// Whether its whole interval keeps to the limit; `None` where it lies on both sides, or there
    /// is none.
    pub within: Option<bool>,
    /// A lower quantile that exceeds the limit, where the one that is limited has no figure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lower: Option<Lower>,
}

/// A quantile below the one that is limited.
#[derive(Debug, Clone, Copy, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Lower {
    /// Which one.
    pub quantile: Quantile,
    /// In ns.
    pub figure: Interval,
}

/// All that are held, every interval at `level`; empty where the experiment has no limit.
pub fn judged(plan: &Plan, samples: &[Sample], level: f64) -> Vec<Judged> {
    let measure = &plan.experiment.measure;
    let Some(decide) = &measure.decide else { return Vec::new() };
    let Some(budget) = decide.budget(measure.quantity) else { return Vec::new() };
    let of_arms = |case: usize| decide.arm.as_slice().contains(&plan.cases[case].arm);
    let judged = |(case, figure)| {
        let lower = lower_over(plan, samples, case, (&figure, level), budget);
        let within = if lower.is_some() { Some(false) } else { side(&figure, budget) };
        Judged { case, figure, within, lower }
    };
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

// A quantile takes many latencies: where there are too few, the highest below it that has a figure
// may already exceed the limit.
fn lower_over(
    plan: &Plan,
    samples: &[Sample],
    case: usize,
    (figure, level): (&Estimate, f64),
    budget: Budget,
) -> Option<Lower> {
    let limited = plan.experiment.measure.quantity.quantile()?;
    if figure.is_ok() || !budget.is_absolute() {
        return None;
    }
    let below = Quantile::ALL.into_iter().rev().filter(|one| one.share() < limited.share());
    let mut plan = plan.clone();
    let (quantile, figure) = below.into_iter().find_map(|quantile| {
        plan.experiment.measure.quantity = Quantity::Quantile(quantile);
        Some((quantile, results::reached(&plan, samples, case, level).ok()?))
    })?;
    (figure.low > budget.limit()).then_some(Lower { quantile, figure })
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

#[cfg(test)]
mod tests {
    use super::*;
    use ringfence_experiment::Experiment;
    use ringfence_experiment::histogram::Histogram;
    use ringfence_machine::fixtures;
    use ringfence_machine::topology::Topology;

    fn plan(at_most: &str) -> Plan {
        let text = format!(
            "schema = 2\nname = 'x'\nmetric = 'reader'\n\
             [measure]\nwindow = '3s'\nquantity = 'p99'\n\
             decide = {{ arm = 'idle', at_most = '{at_most}' }}\n\
             [[role]]\nname = 'reader'\ntask = {{ workload = 'read' }}\n\
             [[arm]]\nname = 'idle'\nactive = ['reader']\n"
        );
        let topology = Topology::read(&fixtures::vm_2cpu().root()).unwrap();
        Plan::new(&Experiment::parse(&text).unwrap(), &topology, None).unwrap()
    }

    // So many reads in each of six trials, one in five of them slow.
    fn samples(reads: u64) -> Vec<Sample> {
        let of = |trial| {
            let latencies = Histogram::from(vec![(24, reads * 4 / 5), (4096, reads / 5)]);
            Sample {
                trial,
                role: "reader".into(),
                length_ns: 1000,
                busy_ns: 1000,
                units: latencies.total(),
                latencies: Some(latencies),
                ..Sample::default()
            }
        };
        (0..6).map(of).collect()
    }

    #[test]
    fn a_lower_quantile_exceeds_a_limit_where_the_limited_one_has_no_figure() {
        let one = |at_most, reads| judged(&plan(at_most), &samples(reads), 0.95).remove(0);
        let few = one("1us", 150);
        assert!(few.figure.is_err() && few.within == Some(false), "{few:?}");
        let lower = few.lower.unwrap();
        assert!(lower.quantile == Quantile::P90 && lower.figure.low > 4000.0, "{lower:?}");
        // Within the limit, it says nothing of longer ones.
        let open = one("10us", 150);
        assert!(open.figure.is_err() && open.within.is_none() && open.lower.is_none(), "{open:?}");
        let many = one("1us", 15_000);
        assert!(many.figure.is_ok() && many.within == Some(false), "{many:?}");
        assert!(many.lower.is_none(), "{many:?}");
    }
}
