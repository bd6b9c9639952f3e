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
    let text =
        format!("schema = 2\nname = 'x'\nmetric = 'victim'\n[measure]\nwindow = '400ms'\n{roles_and_arms}");
    let topology = Topology::read(&fixtures::xeon_2s64t().root()).unwrap();
    Plan::new(&Experiment::parse(&text).unwrap(), &topology, None).unwrap()
}

// In each of four trials the victim alone does 100 units in a window of 1 ms, and beside the case's aggressor as many as told,
// of which one in fifty takes `slow` ns.
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
        let beside = Sample { latencies: latencies(slow), ..of(trial, 1, case, "victim", victim) };
        [alone, beside, of(trial, 1, case, "aggressor", aggressor)]
    };
    (0..4).flat_map(trial).collect()
}

fn found(plan: &Plan, samples: &[Sample]) -> Vec<OnDisk> {
    let results = results::results(plan, samples, 0.95);
    on_disk(plan, samples, &results, &latency::cases(plan, samples, None, 0.95), 0.95)
}

// Cases 1 to 4 commit: fdatasync of 1 and 4 records, nothing of 1 and 4; 5 and 6 write; 7 computes.
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
    let rows: Vec<Vec<_>> = found.iter().map(|one| one.points.iter().map(row).collect()).collect();
    // 40 commits of one record in 1 ms are 40 000 records a second, 20 of four are 80 000 and twice as hard on the victim.
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
    let slowdowns: Vec<f64> =
        found[1].points.iter().map(|point| (point.against.unwrap().value * 1e6).round() / 1e6).collect();
    assert_eq!(slowdowns, [4.0, 4.0]);
}

#[test]
fn ways_to_commit_stand_with_their_own_p99() {
    let plan = plan(
        "[[role]]\nname = 'victim'\ntask = { workload = 'commit', sync = ['fsync', 'fdatasync', 'none'] }\n\
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
    let samples: Vec<Sample> = (0..4).flat_map(|trial| [0, 1, 2].map(|case| one(trial, case))).collect();
    let found = found(&plan, &samples);
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].amount, found[0].against, found[0].alone), (Amount::Commits, Against::P99, None));
    let standing: Vec<Standing> = found[0].points.iter().map(|point| point.standing).collect();
    assert_eq!(standing, [Standing::Beaten, Standing::Efficient, Standing::Unfenced]);
}
