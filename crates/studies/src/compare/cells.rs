//! Which cases are the same in two datasets, and their figures.

use std::collections::BTreeMap;

use ringfence_analysis::estimate::{Finding, Interval, Logs, NotEstimable, ratio_between};
use ringfence_analysis::results;
use ringfence_dataset::Dataset;
use ringfence_experiment::plan::Plan;
use ringfence_experiment::task::Task;

use super::comparison::{Cell, Figure, Missing, Side, Trials};

/// What makes a case itself, whatever its number: the arm, which roles run with how many instances
/// of which task, and the same of its baseline.
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
    let baseline =
        of.baseline.map(|baseline| Box::new(Key { baseline: None, ..key(plan, baseline) }));
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
    let arms =
        |plan: &Plan| plan.experiment.arms.iter().map(|arm| arm.name.clone()).collect::<Vec<_>>();
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
                "these cannot be compared: no case of the {which} was run{}",
                why.unwrap_or_default()
            );
        }
    }
    let tasks = |plan: &Plan| {
        let variants = plan.experiment.roles.iter().zip(&plan.variants);
        variants
            .map(|(role, variants)| {
                (role.name.clone(), variants.iter().map(|v| v.task.clone()).collect())
            })
            .collect::<BTreeMap<String, Vec<Task>>>()
    };
    let others = tasks(after);
    for (role, own) in tasks(before) {
        let Some(theirs) = others.get(&role) else {
            return format!("these cannot be compared: only one has a role '{role}'");
        };
        if !own.iter().any(|task| theirs.contains(task)) {
            return format!("these cannot be compared: '{role}' runs different tasks in the two");
        }
    }
    "these cannot be compared: no case was measured in both".into()
}

/// A figure that both have: its case's number in each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Both {
    before: usize,
    after: usize,
    figure: Figure,
}

/// Of matched cases the slowdown where they have a baseline, else the cost. Where trials belong
/// together, costs are worth comparing too: of each case, and of baselines.
pub(super) fn figures(
    before: &Plan,
    after: &Plan,
    matched: &[(usize, usize)],
    trials: Trials,
) -> Vec<Both> {
    let mut all: Vec<Both> = Vec::new();
    for &(one, other) in matched {
        let baselines = before.cases[one].baseline.zip(after.cases[other].baseline);
        let of = |(before, after), figure| Both { before, after, figure };
        let costs = (trials == Trials::Paired || baselines.is_none()).then(|| {
            baselines.into_iter().chain([(one, other)]).map(|both| of(both, Figure::Cost))
        });
        for figure in
            costs.into_iter().flatten().chain(baselines.map(|_| of((one, other), Figure::Slowdown)))
        {
            if !all.contains(&figure) {
                all.push(figure);
            }
        }
    }
    all
}

pub(super) fn cells(
    before: &Dataset,
    after: &Dataset,
    figures: &[Both],
    trials: Trials,
    (confidence, level, margin): (f64, f64, f64),
) -> Vec<Cell> {
    type ByCase = BTreeMap<usize, Result<Logs, NotEstimable>>;
    let slowdowns = |dataset: &Dataset| -> ByCase {
        results::trial_logs(&dataset.plan, &dataset.samples).into_iter().collect()
    };
    let all = [before, after].map(|dataset| (dataset, slowdowns(dataset)));
    let logs = |side: usize, case: usize, figure: Figure| {
        let (dataset, slowdowns) = &all[side];
        match figure {
            Figure::Slowdown => slowdowns[&case].clone(),
            Figure::Cost => results::cost_logs(&dataset.plan, &dataset.samples, case),
        }
    };
    figures
        .iter()
        .map(|both| {
            let case = &before.plan.cases[both.before];
            let (a, b) = (logs(0, both.before, both.figure), logs(1, both.after, both.figure));
            let change = match (&a, &b) {
                (Ok(a), Ok(b)) => {
                    let change = match trials {
                        Trials::Paired if a.logs.len() == b.logs.len() => {
                            let both = a.logs.iter().zip(&b.logs).map(|(a, b)| b - a);
                            Interval::over_trials(&both.collect::<Vec<f64>>(), level)
                        }
                        _ => ratio_between(&a.logs, &b.logs, level),
                    };
                    change.and_then(|change| change.widened(a.slack + b.slack))
                }
                (Err(reason), _) | (_, Err(reason)) => Err(*reason),
            };
            let alone = |side: Result<Logs, NotEstimable>| {
                let side = side?;
                Interval::over_trials(&side.logs, confidence)?.widened(side.slack)
            };
            Cell {
                arm: case.arm.clone(),
                label: case.label.clone(),
                params: case.params.clone(),
                unit: before.plan.metric_task(both.before).unit(),
                figure: both.figure,
                quantity: before.plan.experiment.measure.quantity,
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
    for (own, other, missing_from) in [(before, after, Side::After), (after, before, Side::Before)]
    {
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
                reason: planned.and_then(|case| other.refusal(case)).cloned(),
            });
        }
    }
    missing
}
