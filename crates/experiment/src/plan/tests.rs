use super::*;
use ringfence_machine::fixtures;

fn topology(tree: &fixtures::FixtureTree) -> Topology {
    Topology::read(&tree.root()).unwrap()
}

const BESIDE: &str = r#"
schema = 2
name = "beside"
metric = "victim"
[measure]
rounds = 3
[[role]]
name = "victim"
task = { workload = "chase", footprint = ["1MiB", "4MiB"] }
[[role]]
name = "aggressor"
count = [1, 2]
task = [{ workload = "write", instruction = ["clflush", "none"] }, { workload = "alu" }]
[[arm]]
name = "alone"
active = ["victim"]
[[arm]]
name = "beside"
active = ["victim", "aggressor"]
baseline = "alone"
"#;

fn plan(text: &str, tree: &fixtures::FixtureTree) -> Plan {
    Plan::new(&Experiment::parse(text).unwrap(), &topology(tree), None).unwrap()
}

#[test]
fn lists_of_all_roles_combine_and_each_case_has_its_own_baseline() {
    let plan = plan(BESIDE, &fixtures::xeon_2s64t());
    assert_eq!(plan.cases.len(), 2 + 2 * 2 * 3);
    let beside: Vec<&Case> = plan.cases.iter().filter(|case| case.arm == "beside").collect();
    assert_eq!(beside[0].label, "footprint=1MiB 1 x write clflush");
    assert_eq!(beside[5].label, "footprint=1MiB 2 x alu");
    assert_eq!(beside[6].params[0], ("victim.footprint".into(), "4MiB".into()));
    for case in &plan.cases {
        let Some(baseline) = case.baseline else { continue };
        let baseline = &plan.cases[baseline];
        assert_eq!(baseline.arm, "alone");
        assert_eq!(baseline.active[0], case.active[0], "the same victim");
    }
    // Baselines are measured in pairs, not by themselves.
    assert_eq!(plan.measured().len(), 12);
    assert!(plan.not_run.is_empty(), "{:?}", plan.not_run);
}

#[test]
fn what_an_arm_sets_is_compared_with_the_same_task_without_it() {
    let text = r#"
schema = 2
name = "handicap"
metric = "victim"
[[role]]
name = "victim"
task = [{ workload = "alu" }, { workload = "alu", handicap = "1%" }]
[[arm]]
name = "whole"
active = ["victim"]
[[arm]]
name = "less"
active = ["victim"]
baseline = "whole"
set = { victim = { handicap = "2%" } }
"#;
    let plan = plan(text, &fixtures::vm_2cpu());
    let pairs: Vec<(usize, usize)> =
        plan.measured().iter().map(|case| (*case, plan.cases[*case].baseline.unwrap())).collect();
    assert_eq!(pairs, [(2, 0), (3, 1)]);
    let handicap = |case: usize| match plan.metric_task(case) {
        Task::Alu(alu) => alu.handicap.map(|share| share.to_string()),
        other => panic!("{other:?}"),
    };
    assert_eq!(
        [0, 1, 2, 3].map(handicap),
        [None, Some("1%".into()), Some("2%".into()), Some("2%".into())]
    );
}

#[test]
fn every_trial_has_its_own_order_and_the_same_seed_the_same() {
    let tree = fixtures::xeon_2s64t();
    let plan = plan(BESIDE, &tree);
    let first = trial(&plan, 0);
    assert_eq!(first, trial(&plan, 0));
    assert_ne!(first, trial(&plan, 1));
    let other =
        Plan { experiment: Experiment { seed: 2, ..plan.experiment.clone() }, ..plan.clone() };
    assert_ne!(first, trial(&other, 0));
    assert_eq!(first.rounds.len(), 3);
    for round in &first.rounds {
        let mut cases: Vec<usize> = round.iter().map(|step| step.case).collect();
        cases.sort_unstable();
        assert_eq!(cases, plan.measured());
        for step in round {
            let mut windows = step.windows.clone();
            windows.sort_unstable();
            assert_eq!(windows, [plan.cases[step.case].baseline.unwrap(), step.case]);
        }
    }
    // Both orders of a pair occur about equally often.
    let steps: Vec<Step> = (0..40).flat_map(|n| trial(&plan, n).rounds).flatten().collect();
    let baseline_first = steps.iter().filter(|step| step.windows[1] == step.case).count();
    assert!((600..840).contains(&baseline_first), "{baseline_first} of {}", steps.len());
}

const BETWEEN: &str = r#"
schema = 2
name = "between"
metric = "victim"
[[role]]
name = "victim"
task = { workload = "alu" }
[[role]]
name = "visitor"
task = { workload = "chase" }
[[arm]]
name = "first"
active = ["victim"]
[[arm]]
name = "again"
active = ["victim"]
baseline = "first"
between = "beside"
[[arm]]
name = "beside"
active = ["victim", "visitor"]
"#;

#[test]
fn what_runs_between_two_windows_lies_between_them_and_is_measured_for_them_alone() {
    let plan = plan(BETWEEN, &fixtures::vm_2cpu());
    assert_eq!(plan.measured(), [1]);
    assert_eq!(plan.run_cases().collect::<Vec<_>>(), [1, 0, 2]);
    let windows: Vec<Vec<usize>> = (0..40)
        .flat_map(|number| trial(&plan, number).rounds)
        .flatten()
        .map(|step| step.windows)
        .collect();
    for order in [[0, 2, 1], [1, 2, 0]] {
        let times = windows.iter().filter(|windows| windows[..] == order).count();
        assert!((20..100).contains(&times), "{order:?}: {times} of {}", windows.len());
    }
    assert!(windows.iter().all(|windows| windows[1] == 2 && windows.len() == 3), "{windows:?}");
    // A case that cannot have it in between cannot be measured.
    let crowd = BETWEEN.replace("name = \"visitor\"", "name = \"visitor\"\ncount = 9");
    let plan = self::plan(&crowd, &fixtures::vm_2cpu());
    assert!(plan.measured().is_empty() && plan.refusal(1).is_some(), "{plan:?}");
}

#[test]
fn what_cannot_lie_between_is_refused() {
    let refused = |from: &str, to: &str| {
        let text = BETWEEN.replace(from, to);
        assert_ne!(text, BETWEEN);
        let tree = fixtures::vm_2cpu();
        let made = Experiment::parse(&text).and_then(|one| Plan::new(&one, &topology(&tree), None));
        made.expect_err(to).to_string()
    };
    assert!(
        refused("between = \"beside\"", "between = \"besides\"").contains("did you mean 'beside'")
    );
    for (from, to) in [
        ("between = \"beside\"", "between = \"first\""),
        ("between = \"beside\"", "between = \"again\""),
        ("baseline = \"first\"\n", ""),
    ] {
        assert!(refused(from, to).contains("between must name a third arm"), "{to}");
    }
    let several = refused(
        "{ workload = \"chase\" }",
        "[{ workload = \"chase\" }, { workload = \"stream\" }]",
    );
    assert!(several.contains("has 2 cases to run between"), "{several}");
}

#[test]
fn what_the_machine_cannot_hold_is_not_run_and_says_why() {
    let plan = plan(BESIDE, &fixtures::vm_2cpu());
    let reasons: Vec<_> = (0..plan.cases.len()).map(|case| plan.refusal(case)).collect();
    for (case, reason) in plan.cases.iter().zip(reasons) {
        let two = case.params.iter().any(|(key, value)| key == "aggressor.count" && value == "2");
        assert_eq!(reason.is_some(), two, "{}: {reason:?}", case.label);
        if let Some(reason) = reason {
            assert!(reason.contains("needs 2 other cores"), "{reason}");
        }
    }
    let alone =
        Plan::new(&Experiment::parse(BESIDE).unwrap(), &topology(&fixtures::one_cpu()), None)
            .unwrap();
    assert!(alone.measured().is_empty());
    assert_eq!(alone.placed.cpus[0].len(), 1);
}

#[test]
fn a_cpu_that_is_shared_is_no_distance_away() {
    let shared = BESIDE.replace("count = [1, 2]", "cpus = \"2\"").replacen(
        "name = \"victim\"",
        "name = \"victim\"\ncpus = \"2\"",
        1,
    );
    let plan =
        Plan::new(&Experiment::parse(&shared).unwrap(), &topology(&fixtures::xeon_2s64t()), None)
            .unwrap();
    assert!(plan.not_run.is_empty() && plan.placed.cpus == [vec![2], vec![2]], "{:?}", plan.placed);
    assert!((0..plan.cases.len()).all(|case| plan.cpus_between(case) == [2]));
}

#[test]
fn baselines_that_cannot_be_told_are_refused() {
    let cases = [
        (
            BESIDE
                .replace("active = [\"victim\"]", "active = [\"victim\", \"aggressor\"]")
                .replace(
                    "name = \"beside\"\nactive = [\"victim\", \"aggressor\"]",
                    "name = \"beside\"\nactive = [\"victim\"]",
                ),
            "6 cases to compare with",
        ),
        (BESIDE.replace("workload = \"alu\"", "workload = \"aluu\""), "did you mean 'alu'"),
        (BESIDE.replace("count = [1, 2]", "cpus = \"99\""), "CPU 99 is not among"),
    ];
    for (text, part) in cases {
        let topology = topology(&fixtures::xeon_2s64t());
        let plan = Experiment::parse(&text).and_then(|one| Plan::new(&one, &topology, None));
        let error = plan.unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn what_runs_already_is_one_thing_and_takes_the_limits_of_its_own_group_only() {
    const ATTACHED: &str = r#"
        schema = 2
        name = "attached"
        metric = "victim"
        [[role]]
        name = "victim"
        task = { workload = "probe", ask = "tcp://127.0.0.1:6379" }
        [[role]]
        name = "aggressor"
        task = { workload = "attached", pid = 4711 }
        [[arm]]
        name = "alone"
        active = ["victim"]
        [[arm]]
        name = "beside"
        active = ["victim", "aggressor"]
        baseline = "alone"
    "#;
    let tree = fixtures::xeon_2s64t();
    plan(ATTACHED, &tree);
    for table in [
        "cpu_weight = { aggressor = 10 }",
        "cpuset = { aggressor = \"1-3\" }",
        "disk_write = { aggressor = \"4MiB/s\" }",
    ] {
        plan(&format!("{ATTACHED}{table}"), &tree);
    }
    let refused = |text: &str| {
        let made = Experiment::parse(text).and_then(|one| Plan::new(&one, &topology(&tree), None));
        made.expect_err(text).to_string()
    };
    for table in [
        "disk_weight = { aggressor = 10 }",
        "memory_high = { aggressor = \"64MiB\" }",
        "io_priority = { aggressor = \"idle\" }",
    ] {
        let why = refused(&format!("{ATTACHED}{table}"));
        let name = table.split(' ').next().unwrap();
        assert!(
            why.contains(&format!("arm 'beside': {name} names 'aggressor', a running process")),
            "{why}"
        );
    }
    plan(&format!("{ATTACHED}frozen = {{ aggressor = \"20%\" }}"), &tree);
    let more = refused(&format!("{ATTACHED}frozen = {{ aggressor = \"21%\" }}"));
    assert!(
        more.contains("exceeds the allowed share of time for pauses of 'aggressor', which is 20%"),
        "{more}"
    );
    for (table, instead) in
        [("cpuset = { victim = \"1\" }", "other cpus"), ("frozen = { victim = \"10%\" }", "quota")]
    {
        let why = refused(&format!("{ATTACHED}{table}"));
        assert!(
            why.contains("is for running processes, and 'victim' is started")
                && why.contains(instead),
            "{why}"
        );
    }
    let two = refused(&ATTACHED.replace("pid = 4711", "pid = [4711, 4712]"));
    assert!(two.contains("make a role of each"), "{two}");
}
