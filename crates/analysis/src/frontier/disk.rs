//! The frontier of disks: what is committed or written to files a second, against what that does to whoever commits or works
//! beside it.
//!
//! Beside a victim it is the aggressors' work, and the victim's p99 where enough latencies bear one, else its slowdown. Where
//! nobody is disturbed, each way to commit stands with its own p99.

use ringfence_experiment::plan::Plan;
use ringfence_experiment::quantity::Quantile;
use ringfence_experiment::sample::Sample;
use ringfence_experiment::task::{Commit, Task};
use serde::Serialize;

use super::{Figures, Standing, per_second, rates, standing};
use crate::estimate::{self, Estimate};
use crate::latency::CaseLatencies;
use crate::results::CaseResult;

/// Ways to work on a disk that can be compared: they do the same kind of work.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OnDisk {
    /// What is counted.
    pub amount: Amount,
    /// What it is held against.
    pub against: Against,
    /// The same without anybody beside, where that is known.
    pub alone: Option<f64>,
    /// The ways, in the order of their cases.
    pub points: Vec<DiskPoint>,
}

/// What is done to a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Amount {
    /// Commits, all of as many records.
    Commits,
    /// Records committed, in batches that differ.
    Records,
    /// Bytes written by a task that does not commit.
    Bytes,
}

/// What work is held against.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Against {
    /// p99 of the metric's latencies, ns.
    P99,
    /// The metric's slowdown.
    Slowdown,
}

/// One way.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DiskPoint {
    /// The case's number.
    pub case: usize,
    /// Who works, by its number among the roles.
    pub role: usize,
    /// Whether what is committed is durable; of bytes nobody asks.
    pub durable: bool,
    /// How much a second, all instances together.
    #[serde(serialize_with = "estimate::serialize_estimate")]
    pub per_s: Estimate,
    /// What it is held against.
    #[serde(serialize_with = "estimate::serialize_estimate")]
    pub against: Estimate,
    /// Where it stands among the others.
    pub standing: Standing,
}

/// The ways of an experiment by what they do: commits first. Empty where nobody commits or writes to files, and of what one way
/// alone does.
pub fn on_disk(
    plan: &Plan,
    samples: &[Sample],
    results: &[CaseResult],
    latencies: &[CaseLatencies],
    level: f64,
) -> Vec<OnDisk> {
    let workers: Vec<(usize, Worker)> =
        results.iter().filter_map(|result| Some((result.case, worker(plan, result.case)?))).collect();
    let commits = workers.iter().filter_map(|(_, worker)| worker.commit);
    let batches: Vec<u32> = commits.map(|commit| commit.batch).collect();
    let by_record = batches.windows(2).any(|two| two[0] != two[1]);
    let of_case = |case: usize| {
        let own = workers.iter().find(|(number, _)| *number == case);
        own.map_or(Vec::new(), |(_, worker)| {
            let amount = worker.commit.filter(|_| by_record).map_or(1.0, |commit| f64::from(commit.batch));
            vec![(worker.role, worker.count, amount)]
        })
    };
    let rates = rates(plan, samples, of_case);
    let commits = if by_record { Amount::Records } else { Amount::Commits };
    let all = [commits, Amount::Bytes].map(|amount| {
        let own =
            || workers.iter().filter(|(_, worker)| worker.commit.is_some() == (amount != Amount::Bytes));
        let p99 = |case: usize| p99(plan, latencies, case);
        let known = own().filter(|(case, _)| p99(*case).is_ok()).count();
        let slowdown = |case: usize| {
            let result = results.iter().find(|result| result.case == case)?;
            Some(result.effect.as_ref()?.by_class.all.slowdown)
        };
        let slowed = own().filter(|(case, _)| slowdown(*case).is_some_and(|found| found.is_ok())).count();
        let against = if slowed > known { Against::Slowdown } else { Against::P99 };
        let point = |(case, worker): &(usize, Worker)| DiskPoint {
            case: *case,
            role: worker.role,
            durable: worker.commit.is_none_or(|commit| commit.sync.durable()),
            per_s: estimate::rate(rates.get(case).map_or(&[][..], Vec::as_slice), level).map(per_second),
            against: match against {
                Against::P99 => p99(*case),
                Against::Slowdown => slowdown(*case).unwrap_or_else(|| p99(*case)),
            },
            standing: Standing::Incomplete,
        };
        let mut points: Vec<DiskPoint> = own().map(point).collect();
        judge(&mut points);
        let baseline = points.iter().find_map(|point| plan.cases[point.case].baseline);
        let alone = match against {
            Against::P99 => baseline.and_then(|case| p99(case).ok()).map(|ns| ns.value),
            Against::Slowdown => Some(1.0),
        };
        OnDisk { amount, against, alone, points }
    });
    all.into_iter().filter(|one| one.points.len() > 1).collect()
}

/// Who works on a disk in a case.
struct Worker<'a> {
    role: usize,
    count: u32,
    commit: Option<&'a Commit>,
}

// The one other role that commits or writes to files; where the case has no baseline, the metric's own, if it commits.
fn worker(plan: &Plan, case: usize) -> Option<Worker<'_>> {
    let what = &plan.cases[case];
    let has_victim = what.baseline.is_some();
    let mut workers =
        what.active.iter().filter(|active| (active.role == plan.metric) != has_victim).filter_map(|active| {
            let commit = match &plan.variants[active.role].get(active.variant)?.task {
                Task::Commit(commit) => Some(commit),
                Task::Dirty(_) if has_victim => None,
                _ => return None,
            };
            Some(Worker { role: active.role, count: active.count, commit })
        });
    let first = workers.next();
    first.filter(|_| workers.next().is_none())
}

fn p99(plan: &Plan, latencies: &[CaseLatencies], case: usize) -> Estimate {
    let own = latencies.iter().find(|one| one.case == case && one.role == plan.experiment.metric);
    let quantile = own.and_then(|own| own.quantiles.iter().find(|of| of.quantile == Quantile::P99));
    quantile.map_or(Err(estimate::NotEstimable::NothingMeasured), |quantile| quantile.ns)
}

fn judge(points: &mut [DiskPoint]) {
    let figures = |point: &DiskPoint| Some((point.per_s.ok()?, point.against.ok()?));
    let all: Vec<Figures> = points.iter().filter(|point| point.durable).filter_map(figures).collect();
    for point in points {
        point.standing = match figures(point) {
            _ if !point.durable => Standing::Unfenced,
            None => Standing::Incomplete,
            Some(own) => standing(own, &all),
        };
    }
}

#[cfg(test)]
#[path = "../../tests/inside/disk.rs"]
mod tests;
