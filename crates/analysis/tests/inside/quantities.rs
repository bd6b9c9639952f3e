use std::sync::Arc;

use ringfence_experiment::Experiment;
use ringfence_experiment::histogram::Histogram;
use ringfence_experiment::placement::Placed;
use ringfence_experiment::plan::{Active, Case};

use super::*;

fn plan(quantity: &str) -> Plan {
    let text = format!(
        "schema = 2\nname = 'x'\nmetric = 'victim'\nmeasure = {{ quantity = '{quantity}', window = '1s' }}\n\
        [[role]]\nname = 'victim'\ntask = {{ workload = 'commit' }}\n\
        [[role]]\nname = 'other'\ntask = {{ workload = 'alu' }}\n[[arm]]\nname = 'alone'\nactive = ['victim']\n\
        [[arm]]\nname = 'beside'\nactive = ['victim', 'other']\nbaseline = 'alone'\n"
    );
    let role = |role| Active { role, count: 1, variant: 0 };
    let case = |arm: &str, roles: usize, baseline| Case {
        arm: arm.into(),
        label: String::new(),
        params: vec![],
        active: (0..roles).map(role).collect(),
        baseline,
        between: None,
    };
    let cases = vec![case("alone", 1, None), case("beside", 2, Some(0))];
    let placed = Placed { cpus: vec![vec![0], vec![1]], notes: vec![], places: vec![] };
    Plan::stored(Experiment::parse(&text).unwrap(), cases, vec![], placed).unwrap()
}

// 1000 commits a window, spread evenly over 8 buckets; beside, 20 of them take 16 times as long. The time of all is the same.
fn samples(trials: u32) -> Vec<Sample> {
    let quick = |count| (0..8).map(move |bucket| (65_536 + bucket * 8192, count));
    let late = (0..8).map(|bucket| ((65_536 + bucket * 8192) * 16, 3));
    let alone = Histogram::from(quick(125).collect::<Vec<_>>());
    let beside = Histogram::from(quick(122).chain(late).collect::<Vec<_>>());
    let sample = |trial, case: u32, latencies: &Histogram| Sample {
        trial,
        position: case,
        step_case: 1,
        case,
        role: Arc::from("victim"),
        length_ns: 1_000_000_000,
        busy_ns: 1_000_000_000,
        units: 1000,
        latencies: Some(latencies.clone()),
        ..Sample::default()
    };
    (0..trials).flat_map(|trial| [sample(trial, 0, &alone), sample(trial, 1, &beside)]).collect()
}

// p99: of 1000 alone the 990th, 92 % of the last bucket; beside 24 are late, of which 14 are at most as long: 4.67 buckets.
#[test]
fn figures_are_about_what_was_asked_for() {
    let samples = samples(12);
    let of = |quantity: &str| {
        let plan = plan(quantity);
        let [main] = main_estimates(&plan, &samples, 0.95)[..] else { panic!() };
        let result = results(&plan, &samples, 0.95).remove(0);
        assert_eq!(result.effect.as_ref().unwrap().finding.slowdown.ok_or(()), main.map_err(|_| ()));
        assert_eq!(result.effect.unwrap().by_class.all.slowdown, main);
        assert_eq!(ratio(&plan, &samples, 1, 0, 0.95), main);
        (main.unwrap(), result.ns_per_unit.unwrap())
    };
    assert_eq!(of("mean").0.value, 1.0);
    let (p99, beside) = of("p99");
    let expected_beside = (65_536.0 + 8192.0 * 14.0 / 3.0) * 16.0;
    let expected_alone = 65_536.0 + 8192.0 * (7.0 + 115.0 / 125.0);
    assert!((beside.value - expected_beside).abs() < 1e-3, "{beside:?}");
    assert!((p99.value - expected_beside / expected_alone).abs() < 1e-6 && p99.trials == 12, "{p99:?}");
    assert!(p99.low > 10.0, "{p99:?}");
    assert!((of("p50").0.value - 1.0).abs() < 0.02);
}

#[test]
fn what_a_figure_rests_on_is_about_it_too() {
    let (plan, samples) = (plan("p99"), samples(12));
    let [(1, Ok(Logs { logs, slack }))] = &trial_logs(&plan, &samples)[..] else { panic!() };
    let [main] = main_estimates(&plan, &samples, 0.95)[..] else { panic!() };
    // Equal trials stand for the same each; as many groups as there are at most.
    assert_eq!(logs.len(), 10);
    assert!(logs.iter().all(|log| (log - main.unwrap().value.ln()).abs() < 1e-9), "{logs:?}");
    assert_eq!(*slack, main.unwrap().slack);
    let alone = cost_logs(&plan, &samples, 1).unwrap().logs;
    assert_eq!(alone.len(), 10);
}

#[test]
fn too_few_latencies_are_a_reason() {
    let plan = plan("p99.9");
    let [main] = main_estimates(&plan, &samples(6), 0.95)[..] else { panic!() };
    assert!(
        matches!(
            main,
            Err(NotEstimable::TooFewLatencies { counted: 6_000, needed: 10_000, trials: Some(10), .. })
        ),
        "{main:?}"
    );
    // Of a case by itself as well.
    let result = results(&plan, &samples(6), 0.95).remove(0);
    assert!(matches!(result.ns_per_unit, Err(NotEstimable::TooFewLatencies { .. })));
    // Those of a dataset without any.
    let none: Vec<Sample> = samples(12).into_iter().map(|s| Sample { latencies: None, ..s }).collect();
    let [main] = main_estimates(&plan, &none, 0.95)[..] else { panic!() };
    assert!(matches!(main, Err(NotEstimable::TooFewLatencies { counted: 0, trials: None, .. })), "{main:?}");
}

#[test]
fn an_experiment_against_itself_takes_only_its_own_trials() {
    let mut plan = plan("p90");
    plan.experiment.aa = Some(6);
    let found = aa_estimates(&plan, &samples(12)).unwrap();
    assert_eq!(found.iter().map(|one| one.unwrap().trials).collect::<Vec<_>>(), [6, 6]);
}

// 1000 in each trial: 1000 of p99 and a tenth more, 10000 of p99.9.
#[test]
fn a_quantile_says_how_many_trials_it_takes() {
    let takes = |quantity: &str, trials| trials_it_takes(&plan(quantity), &samples(trials), 1);
    assert_eq!([takes("mean", 12), takes("p50", 12), takes("p99", 12), takes("p99", 3)], [4, 4, 4, 4]);
    assert_eq!([takes("p99.9", 12), takes("p99", 0)], [11, 4]);
}
