//! Regions that are locked into caches, and how reads of them fared.

use ringfence_analysis::latency::{CaseLatencies, MissShare};
use ringfence_experiment::histogram::Histogram;
use ringfence_machine::cpulist::CpuSet;
use ringfence_resctrl::pseudo::RegionPlan;
use ringfence_resctrl::{GroupId, Mask, Mode, Step};
use ringfence_studies::lock::{Misses, Region};

use crate::golden::check;
use crate::latencies::quantiles;

fn plan() -> RegionPlan {
    let group = GroupId::control("hot");
    let schemata = |text: &str| text.parse().unwrap();
    RegionPlan {
        group: group.clone(),
        mask: Mask(3),
        bytes: 2 << 20,
        cpus: "0-15".parse::<CpuSet>().unwrap(),
        steps: vec![
            Step::Schemata { group: GroupId::default(), schemata: schemata("L3:0=ffffc") },
            Step::Create { group: group.clone() },
            Step::Mode { group: group.clone(), mode: Mode::PseudoLocksetup },
            Step::Schemata { group, schemata: schemata("L3:0=3") },
        ],
    }
}

#[test]
fn regions() {
    check("lock-created", |style| ringfence_report::lock_created(&plan(), false, style));
    check("lock-planned", |style| ringfence_report::lock_created(&plan(), true, style));
    let region = |name: &str, users: Vec<u32>, ours: bool| Region {
        name: name.into(),
        cache: "L3:0".into(),
        mask: "3".into(),
        bytes: 2 << 20,
        cpus: "0-15".into(),
        device: format!("/dev/pseudo_lock/{name}"),
        unseen: None,
        users,
        ours,
    };
    let all = [region("hot", vec![4711, 4712], true), region("a\x1b[31m name", Vec::new(), false)];
    check("lock-list", |style| ringfence_report::locked(&all, style));
    let blind = Region { unseen: Some("of a container".into()), ..all[1].clone() };
    let text = ringfence_report::locked(&[blind], &ringfence_report::Style::plain(80));
    assert!(text.ends_with("There may be users that cannot be seen: of a container.\n"), "{text}");
    check("lock-list-none", |style| ringfence_report::locked(&[], style));
}

#[test]
fn misses_by_size() {
    let of = |kib: u64, asked: &[u64], misses: &[u64]| Misses {
        bytes: kib << 10,
        asked: asked.iter().map(|kib| kib << 10).collect(),
        misses: misses.into(),
        lines: kib * 16,
    };
    let all = [
        of(256, &[200, 256], &[9, 0, 2]),
        of(896, &[896], &[14_000, 120, 130, 7]),
        of(512, &[512], &[]),
    ];
    check("lock-misses", |style| ringfence_report::lock_misses(&all, style));
}

fn latencies(arms: &[(&str, f64)], told: bool) -> Vec<CaseLatencies> {
    let one = |(case, (arm, share)): (usize, &(&str, f64))| CaseLatencies {
        of_loads: true,
        case,
        arm: (*arm).into(),
        label: String::new(),
        role: "reader".into(),
        unit: "reads",
        quantiles: quantiles(&Histogram::from(vec![(64, 900), (256, 100 + case as u64)])),
        histogram: Histogram::from(vec![(64, 900), (256, 100 + case as u64)]),
        misses: told.then_some(MissShare {
            value: *share,
            low: Some(share / 2.0),
            high: Some((share * 2.0).min(1.0)),
            level: 0.95,
            trials: 5,
            from_ns: 128,
        }),
        counted_misses: None,
    };
    arms.iter().enumerate().map(one).collect()
}

#[test]
fn reads_by_row_and_condition() {
    let arms = [
        ("malloc", 0.001),
        ("malloc, noise", 0.497),
        ("malloc, clflush", 0.5),
        ("own ways, preloaded", 0.0),
        ("own ways, preloaded, noise", 0.012),
        ("locked, after clwb", 0.02),
    ];
    check("lock-table", |style| ringfence_report::lock_table(&latencies(&arms, true), style));
    check("lock-table-times", |style| {
        ringfence_report::lock_table(&latencies(&arms, false), style)
    });
    check("lock-table-none", |style| ringfence_report::lock_table(&[], style));
}
