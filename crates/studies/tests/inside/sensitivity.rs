use ringfence_experiment::class::Class;
use ringfence_experiment::plan;
use ringfence_experiment::task::text as parse;
use ringfence_machine::fixtures;

use super::*;

fn plan_of(victims: &[&str], polluters: &[Polluter], sizes: &[u64]) -> Plan {
    let victims: Vec<Table> = victims.iter().map(|text| parse::parse(text).unwrap()).collect();
    let sizes: Vec<Bytes> = sizes.iter().map(|mib| Bytes::mib(*mib)).collect();
    let measure = Measure { looks: vec![12], rounds: 1, ..Measure::default() };
    let experiment = experiment(&victims, polluters, &sizes, PlacementKind::Llc, measure);
    assert_eq!(Experiment::parse(&experiment.to_toml()).unwrap(), experiment);
    Plan::new(&experiment, &Topology::read(&fixtures::vm_2cpu().root()).unwrap(), None).unwrap()
}

// Samples of twelve trials; `slower` by victim's number, polluter's name and footprint in MiB.
fn samples(plan: &Plan, slower: &dyn Fn(usize, &str, u64) -> f64) -> Vec<Sample> {
    let mut all = Vec::new();
    for trial in 0..12 {
        let steps = plan::trial(plan, trial).rounds.concat();
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
                    + f64::from((trial * 31 + number as u32 * 17 + position as u32 * 7) % 11) * 1e-3
                    - 5e-3;
                all.push(Sample {
                    trial,
                    step: number as u32,
                    position: position as u32,
                    step_case: step.case as u32,
                    case: case as u32,
                    role: VICTIM.into(),
                    class: Class::Sharing,
                    length_ns: 10_000_000,
                    busy_ns: 10_000_000,
                    units: (1e8 / (factor * noise)) as u64,
                    ..Sample::default()
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
        Plan::new(&experiment, &topology, None).unwrap();
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
    let Some(Ranking::Most { at_least, others_at_most, .. }) = some.ranking else { panic!() };
    assert!(1.1 < others_at_most && others_at_most < at_least && at_least < 1.2);
    let none = found(&|_, _, _| 1.0);
    assert_eq!(none.most_sensitive, None);
    assert!(matches!(none.ranking, Some(Ranking::NoneSeen { at_most: Some(most) }) if most < 1.02));
    // Two that are slowed down alike.
    let equal = found(&|victim, _, mib| if mib > 1 && victim > 0 { 1.3 } else { 1.0 });
    let Some(Ranking::NotKnown { among, at_most, .. }) = &equal.ranking else {
        panic!("{:?}", equal.ranking)
    };
    assert_eq!(among.len(), 2);
    assert!(equal.most_sensitive.is_none() && at_most.unwrap() > 1.3);
}

// One is slowed down by 30 % for certain; what the other's samples leave possible is more.
#[test]
fn noise_crowns_nobody() {
    let plan = plan_of(&["alu", "mcf"], &[Polluter::Write], &[1, 16]);
    let mut seen = [0; 3];
    for seed in 0..60u32 {
        let wild = f64::from(seed % 6) * 0.5;
        let sure = |victim: usize, _: &str, _: u64| if victim == 0 { 1.3 } else { 1.0 };
        let mut samples = samples(&plan, &sure);
        for (number, sample) in samples.iter_mut().enumerate() {
            let case = &plan.cases[sample.case as usize];
            if case.active[0].variant == 1 {
                let mix = (number as u32 * 7919 + seed * 104_729).wrapping_mul(2_654_435_761) >> 8;
                let by = (f64::from(mix) / f64::from(1 << 24) - 0.5) * wild;
                sample.units = (sample.units as f64 * by.exp()) as u64;
            }
        }
        let found = Sensitivity::new(&plan, &samples).unwrap();
        let reach = |victim: &str| {
            let curve = found.curves.iter().find(|curve| curve.victim == victim).unwrap();
            let lows = curve.points.iter().filter_map(|point| Some(point.together.slowdown?.low));
            (lows.fold(1.0, f64::max), curve.at_most())
        };
        let (alu, mcf) = (reach("alu"), reach("mcf"));
        match found.ranking.as_ref().unwrap() {
            Ranking::Most { victim, .. } => {
                let (crowned, other) = if victim == "alu" { (alu, mcf) } else { (mcf, alu) };
                assert!(other.1.is_some_and(|most| most < crowned.0), "{seed}: {alu:?} {mcf:?}");
                seen[0] += 1;
            }
            Ranking::NotKnown { among, trials_needed, .. } => {
                assert!(among.contains(&"mcf".to_owned()) && mcf.1.is_none_or(|most| most >= alu.0));
                assert!(trials_needed.is_none_or(|trials| trials > 12));
                seen[1] += 1;
            }
            Ranking::NoneSeen { .. } => seen[2] += 1,
        }
        for curve in &found.curves {
            let own = |point: &&Point| point.finding.verdict == Verdict::Slower;
            let told = curve.points.iter().filter(own).map(|point| point.footprint);
            for footprint in told {
                let certain = curve
                    .points
                    .iter()
                    .any(|point| point.footprint == footprint && point.together.verdict == Verdict::Slower);
                assert!(certain != curve.perhaps.contains(&footprint));
            }
        }
    }
    assert!(seen[0] > 0 && seen[1] > 0 && seen[2] == 0, "{seen:?}");
}

#[test]
fn too_few_trials_make_no_curve() {
    let plan = plan_of(&["alu", "mcf"], &[Polluter::Write], &[1, 16]);
    let mut samples = samples(&plan, &|victim, _, _| 1.0 + victim as f64);
    samples.retain(|sample| sample.trial < 3);
    let found = Sensitivity::new(&plan, &samples).unwrap();
    assert_eq!(found.ranking, Some(Ranking::NoneSeen { at_most: None }));
    let missing = found.curves[0].missing();
    assert_eq!(missing, Some((Bytes::mib(1), NotEstimable::TooFewTrials { trials: 3 })));
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
