//! Which cases are the same in two datasets, and their figures.

use std::collections::BTreeMap;

use ringfence_analysis::estimate::{Finding, Interval, NotEstimable, ratio_between};
use ringfence_analysis::results;
use ringfence_dataset::Dataset;
use ringfence_experiment::plan::Plan;
use ringfence_experiment::task::Task;

use super::comparison::{Cell, Figure, Missing, Side};

/// What makes a case itself, whatever its number: the arm, who runs with how many instances of which
/// task, and the same of its baseline.
#[derive(Debug, Clone, PartialEq)]
struct Key<'a> {
    arm: &'a str,
    active: Vec<(&'a str, u32, &'a Task)>,
    baseline: Option<Box<Key<'a>>>,
}

fn key(plan: &Plan, case: usize) -> Key<'_> {
    let of = &plan.cases[case];
    let mut active: Vec<(&str, u32, &Task)> = of
        .active
        .iter()
        .map(|active| {
            let role = plan.experiment.roles[active.role].name.as_str();
            (role, active.count, &plan.variants[active.role][active.variant].task)
        })
        .collect();
    active.sort_by_key(|(role, ..)| *role);
    // A baseline of a baseline is not part of the figure.
    let baseline = of.baseline.map(|baseline| Box::new(Key { baseline: None, ..key(plan, baseline) }));
    Key { arm: &of.arm, active, baseline }
}

/// The cases measured in both, as (first's number, second's number).
pub(super) fn matched(before: &Plan, after: &Plan) -> Vec<(usize, usize)> {
    let others: Vec<(usize, Key)> =
        after.measured().into_iter().map(|case| (case, key(after, case))).collect();
    let same = |case: usize| {
        let own = key(before, case);
        others.iter().find(|(_, other)| *other == own).map(|(other, _)| (case, *other))
    };
    before.measured().into_iter().filter_map(same).collect()
}

/// One sentence that names the first thing in which they differ.
pub(super) fn why_nothing_matches(before: &Plan, after: &Plan) -> String {
    let arms = |plan: &Plan| plan.experiment.arms.iter().map(|arm| arm.name.clone()).collect::<Vec<_>>();
    let (a, b) = (arms(before), arms(after));
    if !a.iter().any(|arm| b.contains(arm)) {
        return format!(
            "these cannot be compared: they have no arm in common ({} and {})",
            a.join(", "),
            b.join(", ")
        );
    }
    for (plan, which) in [(before, "first"), (after, "second")] {
        if plan.measured().is_empty() {
            let why = plan.not_run.first().map(|not_run| format!(", because {}", not_run.reason));
            return format!(
                "these cannot be compared: in the {which} no case was run{}",
                why.unwrap_or_default()
            );
        }
    }
    let tasks = |plan: &Plan| {
        let variants = plan.experiment.roles.iter().zip(&plan.variants);
        variants
            .map(|(role, variants)| (role.name.clone(), variants.iter().map(|v| v.task.clone()).collect()))
            .collect::<BTreeMap<String, Vec<Task>>>()
    };
    let others = tasks(after);
    for (role, own) in tasks(before) {
        let Some(theirs) = others.get(&role) else {
            return format!("these cannot be compared: only one has a role '{role}'");
        };
        if !own.iter().any(|task| theirs.contains(task)) {
            return format!(
                "these cannot be compared: '{role}' runs other tasks in the one than in the other"
            );
        }
    }
    "these cannot be compared: no case was measured in both".into()
}

pub(super) fn cells(
    before: &Dataset,
    after: &Dataset,
    matched: &[(usize, usize)],
    confidence: f64,
    level: f64,
    margin: f64,
) -> Vec<Cell> {
    let logs = |dataset: &Dataset| -> BTreeMap<usize, Result<Vec<f64>, NotEstimable>> {
        results::trial_logs(&dataset.plan, &dataset.samples).into_iter().collect()
    };
    let (before_logs, after_logs) = (logs(before), logs(after));
    matched
        .iter()
        .map(|&(one, other)| {
            let case = &before.plan.cases[one];
            let (a, b) = (&before_logs[&one], &after_logs[&other]);
            let change = match (a, b) {
                (Ok(a), Ok(b)) => ratio_between(a, b, level),
                (Err(reason), _) | (_, Err(reason)) => Err(*reason),
            };
            let alone = |logs: &Result<Vec<f64>, NotEstimable>| {
                logs.as_ref()
                    .map_err(|reason| *reason)
                    .and_then(|logs| Interval::over_trials(logs, confidence))
            };
            Cell {
                arm: case.arm.clone(),
                label: case.label.clone(),
                params: case.params.clone(),
                unit: before.plan.metric_task(one).unit(),
                figure: if case.baseline.is_some() { Figure::Slowdown } else { Figure::Cost },
                before: alone(a),
                after: alone(b),
                change: Finding::new(&change, margin),
            }
        })
        .collect()
}

/// Cases that were measured on one side only.
pub(super) fn missing(before: &Plan, after: &Plan) -> Vec<Missing> {
    let mut missing = Vec::new();
    for (own, other, missing_from) in [(before, after, Side::After), (after, before, Side::Before)] {
        let theirs = other.measured();
        for case in own.measured() {
            let wanted = key(own, case);
            if theirs.iter().any(|theirs| key(other, *theirs) == wanted) {
                continue;
            }
            let planned = (0..other.cases.len()).find(|theirs| key(other, *theirs) == wanted);
            missing.push(Missing {
                arm: own.cases[case].arm.clone(),
                label: own.cases[case].label.clone(),
                missing_from,
                reason: planned.and_then(|case| other.refusal(case)).map(str::to_owned),
            });
        }
    }
    missing
}
