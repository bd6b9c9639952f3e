//! eADR: what is in a cache survives, so that plain stores and a fence are durable, and flushes can
//! be left out.
//!
//! A flush that is there costs what it costs: no instruction is faster for it. What changes is
//! which writes are durable, so that they are compared across instructions here.

use std::collections::BTreeMap;

use ringfence_analysis::estimate::{Finding, Interval, NotEstimable};
use ringfence_analysis::results;
use ringfence_dataset::Dataset;
use ringfence_experiment::plan::Plan;
use ringfence_experiment::task::{FenceAt, Instruction, Target, Task, Write};
use ringfence_machine::Machine;
use serde::Serialize;

/// A write without flushes on the machine whose caches survive, against the cheapest that is
/// durable without that.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Elided {
    /// What sets the case without flushes apart, in words.
    pub label: String,
    /// The same of the cheapest that is durable on the machine as it is described.
    pub instead_of: String,
    /// The first over the second, in time per unit of work.
    pub change: Finding,
}

/// Of every write without flushes that becomes durable by the change.
pub fn elided(before: &Dataset, after: &Dataset, level: f64, margin: f64) -> Vec<Elided> {
    if caches_survive(before) || !caches_survive(after) {
        return Vec::new();
    }
    let logs = |dataset: &Dataset| -> BTreeMap<usize, Vec<f64>> {
        let all = results::trial_logs(&dataset.plan, &dataset.samples).into_iter();
        all.filter_map(|(case, logs)| Some((case, logs.ok()?.logs))).collect()
    };
    let (before_logs, after_logs) = (logs(before), logs(after));
    let mean = |case: &usize| {
        before_logs
            .get(case)
            .map_or(f64::INFINITY, |logs| logs.iter().sum::<f64>() / logs.len() as f64)
    };
    let plain = after.plan.measured().into_iter().filter_map(|case| {
        let write =
            writer(&after.plan, case).filter(|write| write.instruction == Instruction::None)?;
        let cheapest = before.plan.measured().into_iter().filter(|other| {
            writer(&before.plan, *other).is_some_and(|other| {
                matches!(other.instruction, Instruction::Flush(_) | Instruction::Nt)
                    && Write { instruction: Instruction::None, ..other.clone() } == *write
            })
        });
        Some((case, cheapest.min_by(|a, b| mean(a).total_cmp(&mean(b)))?))
    });
    plain
        .map(|(case, other)| {
            let change = match (before_logs.get(&other), after_logs.get(&case)) {
                (Some(a), Some(b)) if a.len() == b.len() => {
                    let both: Vec<f64> = a.iter().zip(b).map(|(a, b)| b - a).collect();
                    Interval::over_trials(&both, level)
                }
                _ => Err(NotEstimable::NothingMeasured),
            };
            Elided {
                label: after.plan.cases[case].label.clone(),
                instead_of: before.plan.cases[other].label.clone(),
                change: Finding::new(&change, margin),
            }
        })
        .collect()
}

// The writer to persistent memory whose cost a case is, if it fences: what no fence follows is
// durable at no known time.
fn writer(plan: &Plan, case: usize) -> Option<&Write> {
    match plan.metric_task(case) {
        Task::Write(write)
            if plan.cases[case].baseline.is_none()
                && write.fence_at != FenceAt::None
                && matches!(write.target, Target::Dax(_) | Target::DevDax(_)) =>
        {
            Some(write)
        }
        _ => None,
    }
}

// The domain of a machine's persistent memory: whether what is in its caches survives.
fn caches_survive(dataset: &Dataset) -> bool {
    let machine = serde_json::from_value::<Machine>(dataset.machine.clone());
    machine.is_ok_and(|machine| {
        machine
            .targets
            .iter()
            .any(|target| target.persistence_domain.as_deref() == Some("cpu_cache"))
    })
}
