//! From samples to figures: a pure function of a plan and its samples.

use std::collections::{BTreeMap, BTreeSet};

use ringfence_experiment::class::Class;
use ringfence_experiment::plan::Plan;
use ringfence_experiment::sample::Sample;
use serde::Serialize;

use crate::estimate::{
    self, ByClass, Diagnostics, Estimate, Finding, Logs, NotEstimable, Observed, Pair, Window,
};
use crate::parts::{Parted, Parts};
use crate::windows::{Lost, TooLong, Windows};

/// What is known of one case.
#[derive(Debug, Clone, Serialize)]
pub struct CaseResult {
    /// The case's number.
    pub case: usize,
    /// Its arm.
    pub arm: String,
    /// What sets it apart, in words.
    pub label: String,
    /// The same as (role.parameter, value).
    pub params: Vec<(String, String)>,
    /// What the metric's work is counted in.
    pub unit: &'static str,
    /// Nanoseconds per unit of the metric's work in this case, over its own windows: the mean, or
    /// whichever quantile of a unit's latency the experiment is about.
    #[serde(serialize_with = "estimate::serialize_estimate")]
    pub ns_per_unit: Estimate,
    /// The slowdown, or where the case has no baseline the ns per unit, where trials differ too
    /// much for an interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed: Option<Observed>,
    /// The slowdown against the baseline, of the mean time or of the quantile; absent where the
    /// case has none.
    pub effect: Option<Effect>,
    /// What the other roles achieved meanwhile.
    pub co_runners: Vec<CoRunner>,
    /// Windows by class.
    pub classes: BTreeMap<Class, usize>,
    /// Steps that are in none of these, since a window of theirs lasted too long.
    pub too_long: TooLong,
}

/// A case against its baseline.
#[derive(Debug, Clone, Serialize)]
pub struct Effect {
    /// The verdict, over all classes.
    pub finding: Finding,
    /// The slowdown over all and in each class.
    pub by_class: ByClass,
    /// How the mean times of single pairs are spread, whatever the experiment is about.
    pub diagnostics: Diagnostics,
    /// When the harm came, where the windows were episodes.
    pub parts: Option<Parts>,
}

/// What another role achieved.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CoRunner {
    /// The role.
    pub role: String,
    /// What its work is counted in.
    pub unit: &'static str,
    /// Units a second, all its instances together, over all windows of the case.
    pub units_per_s: f64,
    /// Bytes a second, where its work is moving bytes.
    pub bytes_per_s: Option<f64>,
}

/// The level of each interval of a measurement, such that all its looks together have the
/// experiment's confidence; that of the look which was the last one, or at which it stands.
pub fn level(plan: &Plan, samples: &[Sample]) -> f64 {
    let measure = &plan.experiment.measure;
    let trials = samples.iter().map(|sample| sample.trial + 1).max().unwrap_or(0);
    estimate::Looks::of(measure).map_or(measure.confidence.0, |looks| looks.level_after(trials))
}

/// All measured cases, in order, every interval at `level`.
pub fn results(plan: &Plan, samples: &[Sample], level: f64) -> Vec<CaseResult> {
    let lost = Lost::of(plan, samples);
    let windows = Windows::of(plan, samples, &lost);
    let work = work(plan, samples, &lost);
    let parts = plan.experiment.measure.episode.map(|_| Parted::of(plan, samples, &lost));
    let mut all = Vec::new();
    for number in plan.measured() {
        let case = &plan.cases[number];
        let mut classes = BTreeMap::new();
        for class in windows.classes(number) {
            *classes.entry(class).or_default() += 1;
        }
        let too_long = windows.too_long(number);
        let effect = case.baseline.map(|_| {
            let pairs = windows.pairs(number);
            let mut by_class = windows.by_class(number, level);
            if let Err(reason) = too_long.bearable() {
                let of_classes = by_class.classes.values_mut();
                of_classes.chain([&mut by_class.all]).for_each(|some| some.slowdown = Err(reason));
            }
            let finding = Finding::new(&by_class.all.slowdown, plan.experiment.measure.margin.0);
            let parts = parts.as_ref().map(|parts| parts.of_case(number, level));
            Effect { finding, by_class, diagnostics: estimate::diagnostics(&pairs), parts }
        });
        let ns_per_unit = windows.rate(number, level);
        let main = effect.as_ref().map_or(&ns_per_unit, |effect| &effect.by_class.all.slowdown);
        let observed = main
            .as_ref()
            .err()
            .and_then(|reason| windows.observed(number, reason, effect.is_some()));
        all.push(CaseResult {
            case: number,
            arm: case.arm.clone(),
            label: case.label.clone(),
            params: case.params.clone(),
            unit: plan.metric_task(number).unit(),
            ns_per_unit,
            observed,
            effect,
            co_runners: co_runners(plan, &work, number),
            classes,
            too_long,
        });
    }
    all
}

/// The pairs of windows of each measured case that has a baseline, by the case's number.
///
/// # Errors
/// [`NotEstimable::TooLong`] where too many are missing of one.
pub fn pairs_by_case(
    plan: &Plan,
    samples: &[Sample],
) -> Result<BTreeMap<usize, Vec<Pair>>, NotEstimable> {
    let windows = Windows::of(plan, samples, &Lost::of(plan, samples));
    let compared = plan.measured().into_iter().filter(|case| plan.cases[*case].baseline.is_some());
    let pairs =
        |case: usize| windows.too_long(case).bearable().map(|()| (case, windows.pairs(case)));
    compared.map(pairs).collect()
}

/// The main figure of each measured case: the slowdown where it has a baseline, else the cost.
pub fn main_estimates(plan: &Plan, samples: &[Sample], level: f64) -> Vec<Estimate> {
    let windows = Windows::of(plan, samples, &Lost::of(plan, samples));
    let estimate = |case: usize| match plan.cases[case].baseline {
        Some(_) => windows.slowdown(case, level),
        None => windows.rate(case, level),
    };
    plan.measured().into_iter().map(estimate).collect()
}

/// The quantity of a case in ns, whatever it is in its baseline: over all windows of the case, also
/// those in which it was others' baseline.
pub fn reached(plan: &Plan, samples: &[Sample], case: usize, level: f64) -> Estimate {
    Windows::of(plan, samples, &Lost::of(plan, samples)).cost(case, level)
}

/// About as many trials as a figure of a case against its baseline takes, going by the trials that
/// were measured: of a quantile those that bring it enough latencies, a tenth more since trials
/// differ; [`FEWEST_TRIALS`](estimate::FEWEST_TRIALS) otherwise.
pub fn trials_it_takes(plan: &Plan, samples: &[Sample], case: usize) -> u32 {
    let quantile = plan.experiment.measure.quantity.quantile();
    let needed = quantile.and_then(|quantile| {
        let windows = Windows::of(plan, samples, &Lost::of(plan, samples));
        let (trials, counted) = windows.counted(case);
        // Where they come in bursts, it is known what that takes.
        let needed = match windows.slowdown(case, 0.95) {
            Err(
                NotEstimable::TooFewLatencies { needed, .. }
                | NotEstimable::TrialsDiffer { needed, .. },
            ) => needed,
            _ => estimate::fewest_latencies(quantile),
        };
        (counted > 0).then(|| (needed as f64 * 1.1 * f64::from(trials) / counted as f64).ceil())
    });
    needed.map_or(0, |needed| needed as u32).clamp(estimate::FEWEST_TRIALS, estimate::MOST_TRIALS)
}

/// How much slower all roles but the metric's are in one case than in another, trial by trial. Both
/// must be measured cases of the same trials.
pub fn co_runners_slowdown(
    plan: &Plan,
    samples: &[Sample],
    case: usize,
    than: usize,
    level: f64,
) -> Estimate {
    let metric = plan.experiment.metric.as_str();
    let lost = Lost::of(plan, samples);
    let windows = Windows::of(plan, samples, &lost);
    [case, than].into_iter().try_for_each(|case| windows.too_long(case).bearable())?;
    let mut trials: BTreeMap<u32, [Window; 2]> = BTreeMap::new();
    let counts = |sample: &&Sample| {
        *sample.role != *metric && sample.case == sample.step_case && !lost.holds(sample)
    };
    for sample in samples.iter().filter(counts) {
        let side = match sample.case as usize {
            number if number == than => 0,
            number if number == case => 1,
            _ => continue,
        };
        let nothing = [Window { units: 0.0, ns: 0.0 }; 2];
        let window = &mut trials.entry(sample.trial).or_insert(nothing)[side];
        window.units += sample.units as f64;
        window.ns += sample.busy_ns as f64;
    }
    // A trial that was cut short may lack one side.
    let both = trials.into_iter().filter(|(_, sides)| sides.iter().all(|side| side.ns > 0.0));
    let pairs: Vec<Pair> = both
        .map(|(trial, [baseline, arm])| Pair { trial, class: Class::Unprobed, baseline, arm })
        .collect();
    estimate::slowdown(&pairs, level)
}

/// What [`main_estimates`] rests on, for each measured case by number: the log of every trial's
/// figure, or what stands for it where the figure is a quantile.
pub fn trial_logs(plan: &Plan, samples: &[Sample]) -> Vec<(usize, Result<Logs, NotEstimable>)> {
    let windows = Windows::of(plan, samples, &Lost::of(plan, samples));
    let logs = |case: usize| match plan.cases[case].baseline {
        Some(_) => windows.slowdown_logs(case),
        None => windows.rate_logs(case),
    };
    plan.measured().into_iter().map(|case| (case, logs(case))).collect()
}

/// The log of every trial's time per unit in a case, measured for itself or as others' baseline.
///
/// # Errors
/// Where there is no figure.
pub fn cost_logs(plan: &Plan, samples: &[Sample], case: usize) -> Result<Logs, NotEstimable> {
    let windows = Windows::of(plan, samples, &Lost::of(plan, samples));
    windows.cost_logs(case)
}

/// The time per unit of a case over that of another: the slowdown where that is its baseline, else
/// the ratio of both costs, trial by trial, over the trials that have both. Where both move bytes
/// it is the time per byte, for units of several sizes.
pub fn ratio(plan: &Plan, samples: &[Sample], case: usize, against: usize, level: f64) -> Estimate {
    let windows = Windows::of(plan, samples, &Lost::of(plan, samples));
    [case, against].into_iter().try_for_each(|case| windows.too_long(case).bearable())?;
    let per_unit = match plan.cases[case].baseline {
        Some(baseline) if baseline == against => windows.slowdown(case, level),
        _ => windows.rate_ratio(case, against, level),
    };
    let bytes = [case, against].map(|case| plan.metric_task(case).bytes_per_unit());
    match bytes {
        // A latency is that of a whole unit, whatever it moves.
        [Some(own), Some(other)] if own != other && plan.experiment.measure.quantity.is_mean() => {
            per_unit.map(|ratio| ratio.times(other as f64 / own as f64))
        }
        _ => per_unit,
    }
}

/// For an A/A experiment: the slowdown that each of its experiments sees, where there is none.
pub fn aa_estimates(plan: &Plan, samples: &[Sample]) -> Option<Vec<Estimate>> {
    let trials = plan.experiment.aa?;
    let level = plan.experiment.measure.confidence.0;
    let lost = Lost::of(plan, samples);
    let windows = Windows::of(plan, samples, &lost);
    let mut estimates = Vec::new();
    for case in plan.measured() {
        let TooLong { steps, of } = windows.too_long(case);
        let bearable = windows.too_long(case).bearable();
        let measured: BTreeSet<u32> = windows.pairs(case).iter().map(|pair| pair.trial).collect();
        let last = samples.iter().map(|sample| sample.trial / trials).max();
        for experiment in 0..last.map_or(0, |last| last + 1) {
            let own = experiment * trials..(experiment + 1) * trials;
            let mut missing = own.clone().filter(|trial| !measured.contains(trial)).peekable();
            if missing.peek().is_none() {
                estimates.push(bearable.and_then(|()| windows.slowdown_within(case, level, own)));
            } else if missing.all(|trial| lost.any_of(trial)) {
                estimates.push(Err(NotEstimable::TooLong { steps, of }));
            }
            // One that was cut short by an interruption has fewer trials and is left out.
        }
    }
    Some(estimates)
}

// What every role but the metric did, by case and role, in one pass.
fn work(plan: &Plan, samples: &[Sample], lost: &Lost) -> BTreeMap<(usize, usize), (u64, u64)> {
    let roles = &plan.experiment.roles;
    let mut work = BTreeMap::new();
    let counts = |sample: &&Sample| sample.case == sample.step_case && !lost.holds(sample);
    for sample in samples.iter().filter(counts) {
        let Some(role) = roles.iter().position(|role| *role.name == *sample.role) else { continue };
        let (units, ns) = work.entry((sample.case as usize, role)).or_insert((0, 0));
        *units += sample.units;
        *ns += sample.length_ns;
    }
    work
}

fn co_runners(
    plan: &Plan,
    work: &BTreeMap<(usize, usize), (u64, u64)>,
    case: usize,
) -> Vec<CoRunner> {
    let others = plan.cases[case].active.iter().filter(|active| active.role != plan.metric);
    others
        .filter_map(|active| {
            let task = &plan.variants[active.role][active.variant].task;
            let (units, ns) = work.get(&(case, active.role)).copied()?;
            // All instances together: the sum of units over the time of one of them.
            let ns = ns as f64 / f64::from(active.count);
            (ns > 0.0).then(|| {
                let units_per_s = units as f64 / ns * 1e9;
                let bytes_per_s = task.bytes_per_unit().map(|bytes| units_per_s * bytes as f64);
                let role = plan.experiment.roles[active.role].name.clone();
                CoRunner { role, unit: task.unit(), units_per_s, bytes_per_s }
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ringfence_experiment::Experiment;
    use ringfence_experiment::histogram::Histogram;
    use ringfence_experiment::placement::Placed;
    use ringfence_experiment::plan::{Active, Case};

    use super::*;

    fn plan(quantity: &str) -> Plan {
        let text = format!(
            "schema = 2\nname = 'x'\nmetric = 'victim'\nmeasure = {{ quantity = '{quantity}', \
             window = '1s' }}\n\
            [[role]]\nname = 'victim'\ntask = {{ workload = 'commit' }}\n\
            [[role]]\nname = 'other'\ntask = {{ workload = 'alu' }}\n[[arm]]\nname = \
            'alone'\nactive = ['victim']\n\
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

    // 1000 commits a window, spread evenly over 8 buckets; beside, 20 of them take 16 times as
    // long. The time of all is the same.
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
        (0..trials)
            .flat_map(|trial| [sample(trial, 0, &alone), sample(trial, 1, &beside)])
            .collect()
    }

    // p99: of 1000 alone the 990th, 92 % of the last bucket; beside 24 are late, of which 14 are at
    // most as long: 4.67 buckets.
    #[test]
    fn figures_are_about_what_was_asked_for() {
        let samples = samples(12);
        let of = |quantity: &str| {
            let plan = plan(quantity);
            let [main] = main_estimates(&plan, &samples, 0.95)[..] else { panic!() };
            let result = results(&plan, &samples, 0.95).remove(0);
            assert_eq!(
                result.effect.as_ref().unwrap().finding.slowdown.ok_or(()),
                main.map_err(|_| ())
            );
            assert_eq!(result.effect.unwrap().by_class.all.slowdown, main);
            assert_eq!(ratio(&plan, &samples, 1, 0, 0.95), main);
            (main.unwrap(), result.ns_per_unit.unwrap())
        };
        assert_eq!(of("mean").0.value, 1.0);
        let (p99, beside) = of("p99");
        let expected_beside = (65_536.0 + 8192.0 * 14.0 / 3.0) * 16.0;
        let expected_alone = 65_536.0 + 8192.0 * (7.0 + 115.0 / 125.0);
        assert!((beside.value - expected_beside).abs() < 1e-3, "{beside:?}");
        assert!(
            (p99.value - expected_beside / expected_alone).abs() < 1e-6 && p99.trials == 12,
            "{p99:?}"
        );
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
                Err(NotEstimable::TooFewLatencies {
                    counted: 6_000,
                    needed: 10_000,
                    trials: Some(10),
                    ..
                })
            ),
            "{main:?}"
        );
        // Of a case by itself as well.
        let result = results(&plan, &samples(6), 0.95).remove(0);
        assert!(matches!(result.ns_per_unit, Err(NotEstimable::TooFewLatencies { .. })));
        // Those of a dataset without any.
        let none: Vec<Sample> =
            samples(12).into_iter().map(|s| Sample { latencies: None, ..s }).collect();
        let [main] = main_estimates(&plan, &none, 0.95)[..] else { panic!() };
        assert!(
            matches!(main, Err(NotEstimable::TooFewLatencies { counted: 0, trials: None, .. })),
            "{main:?}"
        );
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
        assert_eq!(
            [takes("mean", 12), takes("p50", 12), takes("p99", 12), takes("p99", 3)],
            [4, 4, 4, 4]
        );
        assert_eq!([takes("p99.9", 12), takes("p99", 0)], [11, 4]);
    }
}
