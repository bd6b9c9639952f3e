use ringfence_machine::fixtures;

use super::*;
use crate::estimate::Class;
use crate::plan;
use crate::task::text as parse;

fn plan_of(victims: &[&str], polluters: &[Polluter], sizes: &[u64]) -> Plan {
    let victims: Vec<Table> = victims.iter().map(|text| parse::parse(text).unwrap()).collect();
    let sizes: Vec<Bytes> = sizes.iter().map(|mib| Bytes::mib(*mib)).collect();
    let measure = Measure { looks: vec![12], blocks: 1, ..Measure::default() };
    let experiment = experiment(&victims, polluters, &sizes, PlacementKind::Llc, measure);
    assert_eq!(Experiment::parse(&experiment.to_toml()).unwrap(), experiment);
    Plan::new(&experiment, &Topology::read(&fixtures::vm_2cpu().root()).unwrap()).unwrap()
}

// Samples of twelve lives; `slower` by victim's number, polluter's name and footprint in MiB.
fn samples(plan: &Plan, slower: &dyn Fn(usize, &str, u64) -> f64) -> Vec<Sample> {
    let mut all = Vec::new();
    for life in 0..12 {
        let steps = plan::life(plan, life).blocks.concat();
        for (number, step) in steps.iter().enumerate() {
            for (position, &case) in step.windows.iter().enumerate() {
                let active = &plan.cases[case].active;
                let other = active.get(1).map(|active| &plan.variants[1][active.variant].task);
                let factor = match other {
                    Some(Task::Write(write)) => slower(active[0].variant, "write", write.size.0 >> 20),
                    Some(Task::Chase(chase)) => slower(active[0].variant, "chase", chase.footprint.0 >> 20),
                    _ => 1.0,
                };
                // A noise of +-0.5 %.
                let noise = 1.0
                    + f64::from((life * 31 + number as u32 * 17 + position as u32 * 7) % 11) * 1e-3
                    - 5e-3;
                all.push(Sample {
                    life,
                    block: 0,
                    step: number as u32,
                    position: position as u32,
                    step_case: step.case as u32,
                    case: case as u32,
                    role: VICTIM.into(),
                    instance: 0,
                    cpu: 0,
                    class: Class::Sharing,
                    ping_before_ns: None,
                    ping_after_ns: None,
                    start_ns: 0,
                    length_ns: 10_000_000,
                    busy_ns: 10_000_000,
                    units: (1e8 / (factor * noise)) as u64,
                    cycles: None,
                    instructions: None,
                    llc_misses: None,
                    latencies: None,
                });
            }
        }
    }
    all
}

#[test]
fn footprints_go_from_within_l2_to_beyond_the_last_cache() {
    for tree in [
        fixtures::xeon_2s64t(),
        fixtures::zen_multi_llc(),
        fixtures::vm_2cpu(),
        fixtures::one_cpu(),
        fixtures::hybrid_laptop(),
    ] {
        let topology = Topology::read(&tree.root()).unwrap();
        let all = footprints(&topology);
        let cpu = topology.usable().first().unwrap();
        let l2 = topology.l2_size(cpu).unwrap_or(Bytes::mib(1));
        let llc = topology.llc_size(cpu).unwrap_or(Bytes::mib(16));
        assert!((l2.0 / 4..l2.0 / 2).contains(&all[0].0), "{all:?}");
        assert_eq!(all.last(), Some(&Bytes((2 * llc.0).min(512 << 20))));
        assert!(all.windows(2).all(|two| two[0] < two[1] && two[1].0 <= 2 * two[0].0), "{all:?}");
        assert!((4..=14).contains(&all.len()), "{all:?}");
        // Each is a footprint that both polluters take.
        let experiment = experiment(
            &[parse::parse("alu").unwrap()],
            &[Polluter::Write, Polluter::Chase],
            &all,
            PlacementKind::Auto,
            Measure::default(),
        );
        Plan::new(&experiment, &topology).unwrap();
    }
}

#[test]
fn a_curve_says_from_where_on_and_how_much() {
    let plan = plan_of(&["chase footprint=4MiB"], &[Polluter::Write, Polluter::Chase], &[16, 1, 4, 64]);
    let truth = |_: usize, polluter: &str, mib: u64| match (polluter, mib) {
        ("write", 4) => 1.2,
        ("write", 16) => 1.5,
        ("write", 64) => 1.4,
        _ => 1.0,
    };
    let found = Sensitivity::new(&plan, &samples(&plan, &truth)).unwrap();
    assert_eq!(found.most_sensitive, None, "there is but one victim");
    let [write, chase] = &found.curves[..] else { panic!("{:?}", found.curves) };
    assert_eq!((write.victim.as_str(), write.polluter.as_str()), ("chase footprint=4MiB", "write"));
    let sizes: Vec<u64> = write.points.iter().map(|point| point.footprint.0 >> 20).collect();
    assert_eq!(sizes, [1, 4, 16, 64]);
    assert_eq!((write.from, write.worst), (Some(Bytes::mib(4)), Some(Bytes::mib(16))));
    let worst = write.worst_point().unwrap().finding.slowdown.unwrap();
    assert!((worst.value - 1.5).abs() < 0.01, "{worst:?}");
    assert_eq!((chase.from, chase.worst), (None, None));
    assert!(chase.at_most().unwrap() < 1.02);
    // Eight points together are known less well than each by itself.
    for point in write.points.iter().chain(&chase.points) {
        let [each, together] = [point.finding, point.together].map(|finding| finding.slowdown.unwrap());
        assert!(together.low <= each.low && together.high >= each.high && together.level > each.level);
    }
}

#[test]
fn what_comes_and_goes_has_no_beginning() {
    let plan = plan_of(&["mcf"], &[Polluter::Write], &[1, 4, 16]);
    let found =
        Sensitivity::new(&plan, &samples(&plan, &|_, _, mib| if mib == 4 { 1.3 } else { 1.0 })).unwrap();
    assert_eq!((found.curves[0].from, found.curves[0].worst), (None, Some(Bytes::mib(4))));
}

#[test]
fn the_most_sensitive_of_several_victims_is_named() {
    let plan = plan_of(&["alu", "chase footprint=1MiB,4MiB"], &[Polluter::Write], &[1, 16]);
    let found =
        |truth: &dyn Fn(usize, &str, u64) -> f64| Sensitivity::new(&plan, &samples(&plan, truth)).unwrap();
    let some = found(&|victim, _, mib| if mib > 1 { 1.0 + 0.1 * victim as f64 } else { 1.0 });
    assert_eq!(
        some.curves.iter().map(|curve| curve.victim.as_str()).collect::<Vec<_>>(),
        ["alu", "chase footprint=1MiB", "chase footprint=4MiB"]
    );
    assert_eq!(some.most_sensitive.as_deref(), Some("chase footprint=4MiB"));
    assert_eq!(found(&|_, _, _| 1.0).most_sensitive, None);
}

#[test]
fn other_experiments_have_no_curves() {
    let plan = plan_of(&["alu"], &[Polluter::Chase], &[1]);
    let mut other = plan.clone();
    other.experiment.roles[1].name = "aggressor".into();
    assert!(Sensitivity::new(&other, &[]).is_none());
    let nothing = Sensitivity::new(&plan, &[]).unwrap();
    assert!(nothing.curves[0].points[0].finding.slowdown.is_none() && nothing.curves[0].at_most().is_none());
}
