//! The frontier of disks: what is committed or written to files a second, against how much that
//! slows down the programs that commit or work at the same time.
//!
//! With a victim, it is the aggressors' work against the victim's p99 where there are enough
//! latencies for one, else against its slowdown. Without a victim, each commit method stands with
//! its own p99.

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
    /// What it is compared with.
    pub against: Against,
    /// The same without a co-runner, where that is known.
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

/// What work is compared with.
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
    /// The role that works, by its number.
    pub role: usize,
    /// Whether what is committed is durable; always true for bytes that are not commits.
    pub durable: bool,
    /// How much a second, all instances together.
    #[serde(serialize_with = "estimate::serialize_estimate")]
    pub per_s: Estimate,
    /// What it is compared with.
    #[serde(serialize_with = "estimate::serialize_estimate")]
    pub against: Estimate,
    /// Where it stands among the others.
    pub standing: Standing,
}

/// The ways of an experiment by what they do: commits first. Empty where no role commits or writes
/// to files, and without the kinds of work that only one way does.
pub fn on_disk(
    plan: &Plan,
    samples: &[Sample],
    results: &[CaseResult],
    latencies: &[CaseLatencies],
    level: f64,
) -> Vec<OnDisk> {
    let workers: Vec<(usize, Worker)> = results
        .iter()
        .filter_map(|result| Some((result.case, worker(plan, result.case)?)))
        .collect();
    let commits = workers.iter().filter_map(|(_, worker)| worker.commit);
    let batches: Vec<u32> = commits.map(|commit| commit.batch).collect();
    let by_record = batches.windows(2).any(|two| two[0] != two[1]);
    let of_case = |case: usize| {
        let own = workers.iter().find(|(number, _)| *number == case);
        own.map_or(Vec::new(), |(_, worker)| {
            let amount =
                worker.commit.filter(|_| by_record).map_or(1.0, |commit| f64::from(commit.batch));
            vec![(worker.role, worker.count, amount)]
        })
    };
    let rates = rates(plan, samples, of_case);
    let commits = if by_record { Amount::Records } else { Amount::Commits };
    let all = [commits, Amount::Bytes].map(|amount| {
        let own = || {
            workers
                .iter()
                .filter(|(_, worker)| worker.commit.is_some() == (amount != Amount::Bytes))
        };
        let p99 = |case: usize| p99(plan, latencies, case);
        let known = own().filter(|(case, _)| p99(*case).is_ok()).count();
        let slowdown = |case: usize| {
            let result = results.iter().find(|result| result.case == case)?;
            Some(result.effect.as_ref()?.by_class.all.slowdown)
        };
        let slowed =
            own().filter(|(case, _)| slowdown(*case).is_some_and(|found| found.is_ok())).count();
        let against = if slowed > known { Against::Slowdown } else { Against::P99 };
        let point = |(case, worker): &(usize, Worker)| DiskPoint {
            case: *case,
            role: worker.role,
            durable: worker.commit.is_none_or(|commit| commit.sync.durable()),
            per_s: estimate::rate(rates.get(case).map_or(&[][..], Vec::as_slice), level)
                .map(per_second),
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

/// A role that works on a disk in a case.
struct Worker<'a> {
    role: usize,
    count: u32,
    commit: Option<&'a Commit>,
}

// The one other role that commits or writes to files; where the case has no baseline, the metric's
// own, if it commits.
fn worker(plan: &Plan, case: usize) -> Option<Worker<'_>> {
    let what = &plan.cases[case];
    let has_victim = what.baseline.is_some();
    let mut workers =
        what.active.iter().filter(|active| (active.role == plan.metric) != has_victim).filter_map(
            |active| {
                let commit = match &plan.variants[active.role].get(active.variant)?.task {
                    Task::Commit(commit) => Some(commit),
                    Task::Dirty(_) if has_victim => None,
                    _ => return None,
                };
                Some(Worker { role: active.role, count: active.count, commit })
            },
        );
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
    let all: Vec<Figures> =
        points.iter().filter(|point| point.durable).filter_map(figures).collect();
    for point in points {
        point.standing = match figures(point) {
            _ if !point.durable => Standing::Unfenced,
            None => Standing::Incomplete,
            Some(own) => standing(own, &all),
        };
    }
}

#[cfg(test)]
mod tests {
    use ringfence_experiment::Experiment;
    use ringfence_experiment::class::Class;
    use ringfence_machine::fixtures;
    use ringfence_machine::topology::Topology;

    use super::*;
    use crate::{latency, results};

    const BESIDE: &str = "
    [[role]]
    name = 'victim'
    task = { workload = 'commit' }
    [[role]]
    name = 'aggressor'
    [[role.task]]
    workload = 'commit'
    sync = ['fdatasync', 'none']
    batch = [1, 4]
    [[role.task]]
    workload = 'dirty'
    io = ['direct', 'dontcache']
    [[role.task]]
    workload = 'alu'
    [[arm]]
    name = 'alone'
    active = ['victim']
    [[arm]]
    name = 'beside'
    active = ['victim', 'aggressor']
    baseline = 'alone'
";

    fn plan(roles_and_arms: &str) -> Plan {
        let text = format!(
            "schema = 2\nname = 'x'\nmetric = 'victim'\n[measure]\nwindow = \
             '400ms'\n{roles_and_arms}"
        );
        let topology = Topology::read(&fixtures::xeon_2s64t().root()).unwrap();
        Plan::new(&Experiment::parse(&text).unwrap(), &topology, None).unwrap()
    }

    // In each of four trials the victim alone does 100 units in a window of 1 ms, and beside the
    // case's aggressor as many as told, of which one in fifty takes `slow` ns.
    fn measure(case: u32, victim: u64, slow: u64, aggressor: u64) -> Vec<Sample> {
        let of = |trial, position, own: u32, role: &str, units| Sample {
            trial,
            step: case,
            position,
            step_case: case,
            case: own,
            role: role.into(),
            class: Class::Sharing,
            length_ns: 1_000_000,
            busy_ns: 1_000_000,
            units,
            ..Sample::default()
        };
        let latencies = |slow| Some(vec![(1024, 4900), (slow, 100)].into());
        let trial = |trial: u32| {
            let alone = Sample { latencies: latencies(1280), ..of(trial, 0, 0, "victim", 100) };
            let beside =
                Sample { latencies: latencies(slow), ..of(trial, 1, case, "victim", victim) };
            [alone, beside, of(trial, 1, case, "aggressor", aggressor)]
        };
        (0..4).flat_map(trial).collect()
    }

    fn found(plan: &Plan, samples: &[Sample]) -> Vec<OnDisk> {
        let results = results::results(plan, samples, 0.95);
        on_disk(plan, samples, &results, &latency::cases(plan, samples, None, 0.95), 0.95)
    }

    // Cases 1 to 4 commit: fdatasync of 1 and 4 records, nothing of 1 and 4; 5 and 6 write; 7
    // computes.
    fn all() -> Vec<Sample> {
        [
            measure(1, 50, 1 << 14, 40),
            measure(2, 40, 1 << 15, 20),
            measure(3, 90, 1 << 12, 4000),
            measure(4, 90, 1 << 12, 1000),
            measure(5, 25, 1 << 16, 1 << 20),
            measure(6, 25, 1 << 20, 1 << 19),
            measure(7, 100, 1 << 11, 9),
        ]
        .concat()
    }

    #[test]
    fn points_by_hand() {
        let plan = plan(BESIDE);
        let found = found(&plan, &all());
        let kinds: Vec<_> = found.iter().map(|one| (one.amount, one.against)).collect();
        // Batches differ, so that records are counted; p99 is known of all.
        assert_eq!(kinds, [(Amount::Records, Against::P99), (Amount::Bytes, Against::P99)]);
        let row = |point: &DiskPoint| {
            let (rate, p99) = (point.per_s.unwrap().value.round(), point.against.unwrap().value);
            (point.case, rate, p99.log2().floor(), point.standing)
        };
        let rows: Vec<Vec<_>> =
            found.iter().map(|one| one.points.iter().map(row).collect()).collect();
        // 40 commits of one record in 1 ms are 40 000 records a second, 20 of four are 80 000 and
        // twice as hard on the victim.
        assert_eq!(
            rows[0],
            [
                (1, 40_000.0, 14.0, Standing::Efficient),
                (2, 80_000.0, 15.0, Standing::Efficient),
                (3, 4e6, 12.0, Standing::Unfenced),
                (4, 4e6, 12.0, Standing::Unfenced),
            ]
        );
        // A gentler one that writes more beats the other.
        assert_eq!(
            rows[1],
            [
                (5, f64::from(1 << 20) * 1e3, 16.0, Standing::Efficient),
                (6, f64::from(1 << 19) * 1e3, 20.0, Standing::Beaten),
            ]
        );
        let alone = found[0].alone.unwrap();
        assert!((1280.0..1408.0).contains(&alone), "{alone}");
    }

    #[test]
    fn a_slowdown_stands_in_where_there_are_too_few_latencies() {
        let plan = plan(BESIDE);
        let mut samples = all();
        samples.iter_mut().for_each(|sample| sample.latencies = None);
        let found = found(&plan, &samples);
        assert_eq!((found[0].against, found[0].alone), (Against::Slowdown, Some(1.0)));
        let slowdowns: Vec<f64> = found[1]
            .points
            .iter()
            .map(|point| (point.against.unwrap().value * 1e6).round() / 1e6)
            .collect();
        assert_eq!(slowdowns, [4.0, 4.0]);
    }

    #[test]
    fn ways_to_commit_stand_with_their_own_p99() {
        let plan = plan(
            "[[role]]\nname = 'victim'\ntask = \
             { workload = 'commit', sync = ['fsync', 'fdatasync', 'none'] }\n\
         [[arm]]\nname = 'commit'\nactive = ['victim']\n",
        );
        let one = |trial: u32, case: u32| Sample {
            trial,
            step: case,
            step_case: case,
            case,
            role: "victim".into(),
            class: Class::Sharing,
            length_ns: 1_000_000,
            busy_ns: 1_000_000,
            units: [10, 20, 900][case as usize],
            latencies: Some(vec![(1024, 4900), (1 << (20 - case), 100)].into()),
            ..Sample::default()
        };
        let samples: Vec<Sample> =
            (0..4).flat_map(|trial| [0, 1, 2].map(|case| one(trial, case))).collect();
        let found = found(&plan, &samples);
        assert_eq!(found.len(), 1);
        assert_eq!(
            (found[0].amount, found[0].against, found[0].alone),
            (Amount::Commits, Against::P99, None)
        );
        let standing: Vec<Standing> = found[0].points.iter().map(|point| point.standing).collect();
        assert_eq!(standing, [Standing::Beaten, Standing::Efficient, Standing::Unfenced]);
    }
}
