//! Results of hand-made experiments.

use std::collections::BTreeMap;

use ringfence_analysis::estimate::{
    ByClass, ClassEstimate, Estimate, Finding, Interval, NotEstimable, diagnostics,
};
use ringfence_analysis::parts::Parts;
use ringfence_analysis::results::{CaseResult, CoRunner, Effect};
use ringfence_analysis::windows::TooLong;
use ringfence_experiment::class::Class;
use ringfence_experiment::plan::{NotRun, Plan};
use ringfence_experiment::{Episode, Experiment};
use ringfence_machine::fixtures;
use ringfence_machine::topology::Topology;

use crate::golden::check;

const LEVEL: f64 = 0.95;

/// A plan in which everything is run: what this test's processor lacks does not matter.
fn plan(roles_and_arms: &str) -> Plan {
    let head = "schema = 2\nname = 'x'\nmetric = 'victim'\nmeasure = { looks = [20] }\n";
    let experiment = Experiment::parse(&format!("{head}{roles_and_arms}")).unwrap();
    let topology = Topology::read(&fixtures::vm_2cpu().root()).unwrap();
    let mut plan = Plan::new(&experiment, &topology, None).unwrap();
    plan.not_run.clear();
    plan
}

fn interval(value: f64, low: f64, high: f64) -> Estimate {
    Ok(Interval { value, low, high, level: LEVEL, trials: 20, spread: 0.02, slack: 0.0 })
}

fn around(value: f64, half: f64) -> Estimate {
    interval(value, value * (-half).exp(), value * half.exp())
}

fn result(plan: &Plan, case: usize, ns_per_unit: Estimate) -> CaseResult {
    let planned = &plan.cases[case];
    CaseResult {
        case,
        arm: planned.arm.clone(),
        label: planned.label.clone(),
        params: planned.params.clone(),
        unit: plan.metric_task(case).unit(),
        ns_per_unit,
        observed: None,
        effect: None,
        co_runners: Vec::new(),
        classes: BTreeMap::new(),
        too_long: TooLong::default(),
    }
}

fn effect(slowdown: Estimate, classes: &[(Class, u32, Estimate)]) -> Option<Effect> {
    let finding = Finding::new(&slowdown, 0.01);
    let pairs = classes.iter().map(|(_, pairs, _)| pairs).sum();
    let estimate = |pairs, slowdown| ClassEstimate { pairs, trials: 20, slowdown };
    let by_class = ByClass {
        all: estimate(pairs, slowdown),
        classes: classes
            .iter()
            .map(|(class, pairs, one)| (*class, estimate(*pairs, *one)))
            .collect(),
    };
    Some(Effect { finding, by_class, diagnostics: diagnostics(&[]), parts: None })
}

fn writer(bytes_per_s: f64) -> Vec<CoRunner> {
    let units_per_s = bytes_per_s / 64.0;
    vec![CoRunner {
        role: "aggressor".into(),
        unit: "lines",
        units_per_s,
        bytes_per_s: Some(bytes_per_s),
    }]
}

const WRITES: &str = "
    [[role]]
    name = 'victim'
    task = { workload = 'write', instruction = ['clflush', 'clwb', 'nt'], block = ['64B', '4KiB'] }
    [[arm]]
    name = 'write'
    active = ['victim']
";

#[test]
fn writes() {
    let plan = plan(WRITES);
    let times = [
        (412.0, 0.004),
        (107.3, 0.011),
        (180.2, 0.02),
        (24.31, 0.018),
        (31.8, 0.003),
        (9.83, 0.0004),
    ];
    let results: Vec<CaseResult> = times
        .iter()
        .enumerate()
        .map(|(case, (ns, half))| result(&plan, case, around(*ns, *half)))
        .collect();
    check("cases-write", |style| ringfence_report::cases(&plan, &results, style));
}

#[test]
fn some_writes_fail_and_some_are_not_run() {
    let mut plan = plan(WRITES);
    let reason = "this processor has no clwb";
    plan.not_run = [2, 3].map(|case| NotRun { case, reason: reason.into() }).into();
    plan.not_run.push(NotRun { case: 5, reason: "the target has no room for 256MiB".into() });
    let mut results = vec![
        result(&plan, 0, around(412.0, 0.004)),
        result(&plan, 1, Err(NotEstimable::NoWork { trials: 3, of: 20 })),
        result(&plan, 4, around(31.8, 0.003)),
    ];
    if let Ok(interval) = &mut results[2].ns_per_unit {
        interval.trials = 17;
    }
    check("cases-write-partly", |style| ringfence_report::cases(&plan, &results, style));
}

#[test]
fn nothing_was_run() {
    let mut plan = plan(WRITES);
    let not_run =
        |case| NotRun { case, reason: "there is no second core on this last-level cache".into() };
    plan.not_run = (0..plan.cases.len()).map(not_run).collect();
    check("cases-none", |style| ringfence_report::cases(&plan, &[], style));
    plan.cases.clear();
    plan.not_run.clear();
    check("cases-no-plan", |style| ringfence_report::cases(&plan, &[], style));
}

const NEIGHBOURS: &str = "
    [[role]]
    name = 'victim'
    task = { workload = 'chase' }
    [[role]]
    name = 'aggressor'
    task = [{ workload = 'write', instruction = ['clwb', 'clflush', 'nt'] }, { workload = 'alu' }, \
    { workload = 'idle' }]
    [[arm]]
    name = 'alone'
    active = ['victim']
    [[arm]]
    name = 'beside'
    active = ['victim', 'aggressor']
    baseline = 'alone'
";

#[test]
fn episodes() {
    let mut plan = plan(NEIGHBOURS);
    plan.experiment.measure.episode = Some(Episode::default());
    let few = Err(NotEstimable::TooFewTrials { trials: 3 });
    let parts = [
        Parts {
            beside: around(3.1, 0.1),
            tail: around(12.2, 0.3),
            longest: around(9.1, 0.3),
            ran_s: 39.8,
        },
        Parts {
            beside: around(4.4, 0.1),
            tail: around(1.004, 0.02),
            longest: around(37.0, 0.2),
            ran_s: 3.25,
        },
        Parts { beside: few, tail: few, longest: few, ran_s: 40.0 },
    ];
    let results: Vec<CaseResult> = (1..4)
        .zip(parts)
        .map(|(case, parts)| CaseResult {
            effect: effect(parts.beside, &[]).map(|effect| Effect { parts: Some(parts), ..effect }),
            ..result(&plan, case, around(900_000.0, 0.1))
        })
        .collect();
    check("cases-episodes", |style| ringfence_report::cases(&plan, &results, style));
}

#[test]
fn neighbours() {
    let plan = plan(NEIGHBOURS);
    let slow = interval(7.42, 5.1, 10.8);
    let classes = [
        (Class::Sharing, 214, around(12.1, 0.025)),
        (Class::Apart, 185, interval(1.002, 0.997, 1.007)),
        (Class::Mixed, 1, Err(NotEstimable::TooFewTrials { trials: 1 })),
    ];
    let sharing = |estimate| effect(estimate, &[(Class::Sharing, 400, estimate)]);
    let effects = [
        (effect(slow, &classes), writer(3.414e9)),
        (sharing(interval(1.071, 1.062, 1.08)), writer(0.61e9)),
        (sharing(interval(1.001, 0.998, 1.004)), writer(5.2e9)),
        (
            sharing(interval(1.013, 0.991, 1.035)),
            vec![CoRunner {
                role: "aggressor".into(),
                unit: "multiplications",
                units_per_s: 1.31e9,
                bytes_per_s: None,
            }],
        ),
        (
            sharing(Err(NotEstimable::Stalled { baseline: 0, arm: 2, of: 20 })),
            vec![CoRunner {
                role: "aggressor".into(),
                unit: "none",
                units_per_s: 0.0,
                bytes_per_s: None,
            }],
        ),
    ];
    let results: Vec<CaseResult> = effects
        .into_iter()
        .enumerate()
        .map(|(index, (effect, co_runners))| CaseResult {
            effect,
            co_runners,
            ..result(&plan, index + 1, around(20.0, 0.01))
        })
        .collect();
    check("cases-neighbours", |style| ringfence_report::cases(&plan, &results, style));
    let missing = CaseResult { too_long: TooLong { steps: 2, of: 240 }, ..results[1].clone() };
    let text = ringfence_report::cases(&plan, &[missing], &ringfence_report::Style::plain(200));
    assert!(
        text.contains("Left out: 2 of 240 steps hold a window of more than 3 times the length"),
        "{text}"
    );
    check("cases-neighbours-one", |style| ringfence_report::cases(&plan, &results[1..2], style));
}

const COMMANDS: &str = "
    [[role]]
    name = 'victim'
    [role.task]
    workload = 'command'
    run = [
        '/opt/databases/bin/bench --threads 1 --path /var/lib/benchmark/data --seconds 3600',
        'mcf inp.in',
    ]
    [[role]]
    name = 'aggressor'
    count = [1, 4]
    task = { workload = 'command', run = ['stress-ng --vm 1', 'a\u{1b}[31mb'] }
    [[role]]
    name = 'watcher'
    task = { workload = 'stream' }
    [[arm]]
    name = 'alone'
    active = ['victim']
    [[arm]]
    name = 'beside'
    active = ['victim', 'aggressor']
    baseline = 'alone'
    [[arm]]
    name = 'crowded'
    active = ['victim', 'aggressor', 'watcher']
    baseline = 'alone'
    [[arm]]
    name = 'watched'
    active = ['victim', 'watcher']
";

#[test]
fn long_labels_many_arms_and_looks() {
    let mut plan = plan(
        &COMMANDS.replace('\u{1b}', "\\u001b").replace("'a\\u001b[31mb'", "\"a\\u001b[31mb\""),
    );
    plan.experiment.measure.looks = vec![10, 20, 40];
    let mut results = Vec::new();
    for case in 2..plan.cases.len() {
        let ns = Ok(Interval {
            value: 3.95e10,
            low: 3.9e10,
            high: 4.0e10,
            level: 1.0 - 0.05 / 3.0,
            trials: 10,
            spread: 0.02,
            slack: 0.0,
        });
        let mut result = result(&plan, case, ns);
        if plan.cases[case].baseline.is_some() {
            let slowdown = ns.map(|ns| Interval { value: 2.32, low: 1.06, high: 5.1, ..ns });
            result.effect = effect(
                slowdown,
                &[
                    (Class::Unclear, 11, slowdown),
                    (Class::Unprobed, 9, Err(NotEstimable::OutOfRange)),
                ],
            );
            result.co_runners = writer(1e9);
            if let Some(effect) = &mut result.effect {
                (effect.diagnostics.pairs, effect.diagnostics.stalled) = (20, 3);
            }
        }
        results.push(result);
    }
    check("cases-commands", |style| ringfence_report::cases(&plan, &results, style));
}

#[test]
fn classes() {
    let all =
        [Class::Unprobed, Class::Mixed, Class::Unclear, Class::Apart, Class::Sharing, Class::Apart];
    check("classes", |style| ringfence_report::classes_legend(all, style));
    check("classes-none", |style| ringfence_report::classes_legend([], style));
}
