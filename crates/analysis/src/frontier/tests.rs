use ringfence_experiment::Experiment;
use ringfence_experiment::class::Class;
use ringfence_machine::fixtures;
use ringfence_machine::topology::Topology;

use super::*;
use crate::estimate::NotEstimable;

const BESIDE: &str = "
    [[role]]
    name = 'victim'
    task = { workload = 'chase' }
    [[role]]
    name = 'aggressor'
    count = 2
    [[role.task]]
    workload = 'write'
    instruction = ['clwb', 'nt', 'clflush', 'none']
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
    let text = format!("schema = 2\nname = 'x'\nmetric = 'victim'\n{roles_and_arms}");
    let topology = Topology::read(&fixtures::xeon_2s64t().root()).unwrap();
    let mut plan = Plan::new(&Experiment::parse(&text).unwrap(), &topology, None).unwrap();
    // Whatever processor this test runs on.
    plan.not_run.clear();
    plan
}

fn sample(trial: u32, position: u32, step_case: usize, case: usize, role: &str) -> Sample {
    Sample {
        trial,
        step: step_case as u32,
        position,
        step_case: step_case as u32,
        case: case as u32,
        role: role.into(),
        class: Class::Sharing,
        length_ns: 1000,
        busy_ns: 1000,
        units: 100,
        ..Sample::default()
    }
}

// In each of four trials, the third as the first and the fourth as the second: the victim alone
// does 100 units in a window, beside `victim` of them; each of two writers writes `lines` lines in
// 1000 ns.
fn measure(case: usize, victim: [u64; 2], lines: [u64; 2]) -> Vec<Sample> {
    let trial = |trial: u32| {
        let of = trial as usize % 2;
        let alone = sample(trial, 0, case, 0, "victim");
        let beside = Sample { units: victim[of], ..sample(trial, 1, case, case, "victim") };
        let writer = |instance| Sample {
            units: lines[of],
            instance,
            ..sample(trial, 1, case, case, "aggressor")
        };
        [alone, beside, writer(0), writer(1)]
    };
    (0..4).flat_map(trial).collect()
}

// Case 0 is alone; 1 to 4 are clwb, nt, clflush and plain stores; 5 is alu.
#[test]
fn points_by_hand() {
    let plan = plan(BESIDE);
    let samples = [
        measure(1, [50, 50], [25, 25]),
        measure(2, [100, 100], [50, 50]),
        measure(3, [80, 80], [10, 10]),
        measure(4, [100, 100], [500, 500]),
        measure(5, [90, 90], [70, 70]),
    ]
    .concat();
    let found = frontier(&plan, &samples, 0.95);
    assert_eq!((found.victim.as_deref(), found.reached), (Some("victim"), Reached::Flushed));
    let row = |point: &Point| {
        let (rate, slowdown) = point.figures().unwrap();
        (point.case, rate.value.round(), (slowdown.value * 1e6).round() / 1e6, point.standing)
    };
    // Two writers with 25 lines of 64 B in 1000 ns: 3.2 GB/s. Half the units in the same time: 2x.
    let rows: Vec<_> = found.points.iter().map(row).collect();
    assert_eq!(
        rows,
        [
            (1, 3.2e9, 2.0, Standing::Beaten),
            (2, 6.4e9, 1.0, Standing::Efficient),
            (3, 1.28e9, 1.25, Standing::Beaten),
            // Ten times as fast and as gentle, but nothing is flushed.
            (4, 64e9, 1.0, Standing::Unfenced),
        ]
    );
    assert_eq!(found.points[0].label, "write clwb");
    assert_eq!(found.points[0].writers[0].count, 2);
}

// Trials of 3.2 and 6.4 GB/s, and slowdowns of 1 and 4: wide intervals. clwb is worse than nt in
// both by value and in none beyond the interval.
#[test]
fn what_intervals_leave_open_is_close_not_beaten() {
    let plan = plan(BESIDE);
    let samples = [
        measure(1, [100, 20], [24, 48]),
        measure(2, [100, 25], [25, 50]),
        measure(3, [100, 100], [1, 1]),
    ]
    .concat();
    let found = frontier(&plan, &samples, 0.95);
    let standings: Vec<Standing> = found.points.iter().map(|point| point.standing).collect();
    // clflush writes least and disturbs no other program, but nt may not either. What was not
    // measured is not judged.
    assert_eq!(
        standings,
        [Standing::Close, Standing::Efficient, Standing::Close, Standing::Unfenced]
    );
    assert_eq!(found.points[3].bytes_per_s, Err(NotEstimable::NothingMeasured));
    let (rate, _) = found.points[1].figures().unwrap();
    assert!(
        (rate.value - (3.2e9f64 * 6.4e9).sqrt()).abs() < 1.0
            && rate.low < 3.2e9
            && rate.high > 6.4e9
    );
}

// By the figures alone the second is always both faster and gentler.
#[test]
fn what_a_way_is_beaten_in_is_what_intervals_tell() {
    let plan = plan(BESIDE);
    let beaten = |first: ([u64; 2], [u64; 2]), second: ([u64; 2], [u64; 2])| {
        let samples = [measure(1, first.0, first.1), measure(2, second.0, second.1)].concat();
        let found = frontier(&plan, &samples, 0.95);
        (found.beaten_in(&found.points[0]), found.beaten_in(&found.points[1]))
    };
    let (gentle, harsh, unclear) = ([100, 100], [50, 50], [100, 40]);
    let (fast, slow, either) = ([50, 50], [25, 25], [25, 90]);
    assert_eq!(beaten((harsh, slow), (gentle, fast)), (Some(Better::Both), None));
    assert_eq!(beaten((unclear, slow), (gentle, fast)), (Some(Better::Faster), None));
    assert_eq!(beaten((gentle, slow), (gentle, fast)), (Some(Better::Faster), None));
    assert_eq!(beaten((harsh, either), (gentle, fast)), (Some(Better::Gentler), None));
    assert_eq!(beaten((unclear, either), (gentle, fast)), (None, None));
}

#[test]
fn a_slower_way_is_efficient_where_it_is_gentler() {
    let plan = plan(BESIDE);
    let samples = [
        measure(1, [50, 51], [50, 50]),
        measure(2, [100, 100], [25, 25]),
        measure(3, [70, 70], [20, 20]),
    ]
    .concat();
    let found = frontier(&plan, &samples, 0.95);
    let standings: Vec<Standing> = found.points.iter().map(|point| point.standing).collect();
    assert_eq!(standings[..3], [Standing::Efficient, Standing::Efficient, Standing::Beaten]);
    // The same ways from two experiments are judged together.
    let mut slower = found.clone();
    slower.points.truncate(1);
    let mut gentler = found.clone();
    gentler.points = found.points[1..].to_vec();
    assert_eq!(merged(&[&slower, &gentler]), Some(found));
    assert_eq!(merged(&[]), None);
}

#[test]
fn a_way_without_a_figure_is_incomplete() {
    let plan = plan(BESIDE);
    let one_trial: Vec<Sample> =
        measure(1, [50, 50], [25, 25]).into_iter().filter(|sample| sample.trial == 0).collect();
    let found = frontier(&plan, &one_trial, 0.95);
    assert_eq!(found.points[0].standing, Standing::Incomplete);
    assert_eq!(found.points[0].bytes_per_s, Err(NotEstimable::TooFewTrials { trials: 1 }));
}

#[test]
fn costs_alone_have_rates_and_no_victim() {
    let text = "
        [[role]]
        name = 'victim'
        [role.task]
        workload = 'write'
        instruction = ['clwb', 'none']
        fence_at = ['none', 'block']
        target = 'dax:/mnt/pmem'
        [[arm]]
        name = 'write'
        active = ['victim']
    ";
    let plan = plan(text);
    let samples: Vec<Sample> = (0..4)
        .flat_map(|case| (0..4).map(move |trial| sample(trial, 0, case, case, "victim")))
        .collect();
    let found = frontier(&plan, &samples, 0.95);
    assert_eq!((found.victim, found.reached), (None, Reached::Durable));
    let fenced: Vec<bool> = found.points.iter().map(Point::fenced).collect();
    // clwb unfenced, clwb fenced, plain stores twice.
    assert_eq!(fenced, [false, true, false, false]);
    assert!(found.points.iter().all(|point| point.slowdown.is_none() && !point.paced()));
    assert!((found.points[1].bytes_per_s.unwrap().value - 6.4e9).abs() < 1.0);
    assert_eq!(found.points[1].standing, Standing::Incomplete);
}

#[test]
fn a_writer_that_suffers_beside_writers_is_the_victim() {
    let text =
        BESIDE.replace("{ workload = 'chase' }", "{ workload = 'write', instruction = 'nt' }");
    let plan = plan(&text);
    let found = frontier(&plan, &measure(1, [50, 50], [25, 25]), 0.95);
    assert_eq!(found.points[0].writers.len(), 1);
    assert_eq!(found.points[0].writers[0].role, "aggressor");
    assert!((found.points[0].bytes_per_s.unwrap().value - 3.2e9).abs() < 1.0);
}

#[test]
fn an_experiment_without_writers_has_no_points() {
    let text = BESIDE.replace("workload = 'write'\n", "workload = 'chase'\n");
    let text = text.replace("    instruction = ['clwb', 'nt', 'clflush', 'none']\n", "");
    let found = frontier(&plan(&text), &[], 0.95);
    assert_eq!((found.points.len(), found.victim, found.reached), (0, None, Reached::Flushed));
}

#[test]
fn json_has_figures_or_reasons() {
    let plan = plan(BESIDE);
    let json =
        serde_json::to_value(frontier(&plan, &measure(1, [50, 50], [25, 25]), 0.95)).unwrap();
    assert_eq!(json["reached"], "flushed");
    assert_eq!(json["points"][0]["standing"], "efficient");
    assert!(json["points"][0]["slowdown"]["value"].is_f64());
    assert_eq!(json["points"][1]["bytes_per_s"]["reason"], "nothing_measured");
}
