//! The latencies of each case, and what share of them are misses.

use std::collections::BTreeMap;

use ringfence_experiment::histogram::Histogram;
use ringfence_experiment::plan::Plan;
use ringfence_experiment::quantity::{Quantile, Quantity};
use ringfence_experiment::sample::Sample;
use ringfence_experiment::scale::Scale;
use serde::{Serialize, Serializer};
use statrs::distribution::{ContinuousCDF, Normal};

use crate::estimate::{
    Estimate, FEWEST_BEYOND, NotEstimable, Observed, interpolated, quantile_observed, quantile_of,
    serialize_estimate, t_two_sided,
};
use crate::windows::{Lost, Windows};

/// What one role counted in all windows of one case.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CaseLatencies {
    /// The case's number.
    pub case: usize,
    /// Its arm.
    pub arm: String,
    /// What sets it apart, in words.
    pub label: String,
    /// The role.
    pub role: String,
    /// What one latency is that of, in the plural.
    pub unit: &'static str,
    /// Whether they are loads, which hit a cache or miss.
    #[serde(skip)]
    pub of_loads: bool,
    /// All windows together, all instances. In documents in buckets of an eighth of a power of two,
    /// as ever.
    #[serde(serialize_with = "in_eighths")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<(u64, u64)>"))]
    pub histogram: Histogram,
    /// Quantiles of the same, interpolated within the buckets: each of [`Quantile::ALL`].
    pub quantiles: Vec<LatencyQuantile>,
    /// The share of misses, where latencies tell them from hits.
    pub misses: Option<MissShare>,
    /// Last-level cache misses per unit, by the processor's own counter, in the same windows;
    /// `None` where there is no counter. What the task does besides its timed work is counted as
    /// well.
    pub counted_misses: Option<f64>,
}

/// A quantile of latencies.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LatencyQuantile {
    /// Which.
    pub quantile: Quantile,
    /// How long it is, ns.
    #[serde(serialize_with = "serialize_estimate")]
    pub ns: Estimate,
    /// What was counted, ns, where there is no interval although there are enough latencies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed: Option<Observed>,
}

impl LatencyQuantile {
    /// Of windows, each with its trial.
    pub fn of(windows: &[(u32, Histogram)], quantile: Quantile, level: f64) -> Self {
        let ns = quantile_of(windows, quantile, level);
        let observed = ns.err().filter(NotEstimable::is_observed);
        let observed = observed.and_then(|_| quantile_observed(windows, quantile));
        Self { quantile, ns, observed }
    }
}

fn in_eighths<S: Serializer>(histogram: &Histogram, serializer: S) -> Result<S::Ok, S::Error> {
    histogram.in_eighths().serialize(serializer)
}

/// A point of a curve of quantiles.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CurvePoint {
    /// One in so many latencies is longer: 100 at p99.
    pub one_in: f64,
    /// How long that quantile is, ns.
    pub ns: f64,
    /// Whether it is at most the highest quantile that has a figure.
    pub borne: bool,
}

// From one power of ten to the next.
const POINTS: i32 = 20;

impl CaseLatencies {
    /// Quantiles from the least latency on, ever closer to all, as long as [`FEWEST_BEYOND`] are
    /// longer. What lies beyond the highest quantile that has a figure is not borne.
    pub fn curve(&self) -> Vec<CurvePoint> {
        let figures = self.quantiles.iter().filter(|of| of.ns.is_ok());
        let borne = figures.map(|of| of.quantile.one_in()).max().unwrap_or(0) as f64;
        let most = self.histogram.total() as f64 / FEWEST_BEYOND as f64;
        // The median lies between two steps.
        let steps = (0..=POINTS * 19).map(|step| 10f64.powf(f64::from(step) / f64::from(POINTS)));
        let mut one_in: Vec<f64> =
            steps.chain([2.0]).filter(|one_in| *one_in <= most * (1.0 + 1e-9)).collect();
        one_in.sort_by(f64::total_cmp);
        let point = |one_in: f64| {
            let ns = interpolated(&self.histogram, 1.0 - 1.0 / one_in)?;
            Some(CurvePoint { one_in, ns, borne: one_in <= borne * (1.0 + 1e-9) })
        };
        one_in.into_iter().map_while(point).collect()
    }
}

/// The share of operations that took at least as long as a miss.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MissShare {
    /// The mean over trials of each trial's share.
    pub value: f64,
    /// Lower bound, at least 0; `None` where one trial gives no interval.
    pub low: Option<f64>,
    /// Upper bound, at most 1.
    pub high: Option<f64>,
    /// Confidence level of the two bounds.
    pub level: f64,
    /// Trials that it rests on.
    pub trials: u32,
    /// The least latency that counts as a miss, ns.
    pub from_ns: u64,
}

/// The latencies of each case and role that counted any, in order, intervals at `level`. A case's
/// windows as others' baseline count as well; those of steps with a window that lasted too long do
/// not.
pub fn cases(
    plan: &Plan,
    samples: &[Sample],
    scale: Option<&Scale>,
    level: f64,
) -> Vec<CaseLatencies> {
    let from_ns = scale.and_then(Scale::threshold_ns);
    let mut counted: BTreeMap<(usize, usize), Vec<&Sample>> = BTreeMap::new();
    let lost = Lost::of(plan, samples);
    let windows = Windows::about(Quantity::Mean, plan, samples, &lost);
    let counted_in = |sample: &&Sample| sample.latencies.is_some() && !lost.holds(sample);
    for sample in samples.iter().filter(counted_in) {
        let role = plan.experiment.roles.iter().position(|role| *role.name == *sample.role);
        let Some(role) = role.filter(|_| (sample.case as usize) < plan.cases.len()) else {
            continue;
        };
        counted.entry((sample.case as usize, role)).or_default().push(sample);
    }
    let of_one = |((case, role), samples): ((usize, usize), Vec<&Sample>)| {
        let planned = &plan.cases[case];
        let active = planned.active.iter().find(|active| active.role == role)?;
        let all = samples.iter().filter_map(|sample| sample.latencies.as_ref());
        let task = &plan.variants[role].get(active.variant)?.task;
        let of_loads = task.times_loads();
        Some(CaseLatencies {
            case,
            arm: planned.arm.clone(),
            label: planned.label.clone(),
            role: plan.experiment.roles[role].name.clone(),
            unit: task.unit(),
            of_loads,
            histogram: Histogram::sum(all),
            // As little as any other figure.
            quantiles: quantiles(&samples, level, windows.bearable(case)),
            misses: from_ns
                .filter(|_| of_loads)
                .and_then(|from_ns| misses(&samples, from_ns, level)),
            counted_misses: if of_loads { per_unit(&samples) } else { None },
        })
    };
    counted.into_iter().filter_map(of_one).collect()
}

fn quantiles(
    samples: &[&Sample],
    level: f64,
    bearable: Result<(), NotEstimable>,
) -> Vec<LatencyQuantile> {
    let windows: Vec<(u32, Histogram)> = samples
        .iter()
        .filter_map(|sample| Some((sample.trial, sample.latencies.clone()?)))
        .collect();
    let of = |quantile| match bearable {
        Ok(()) => LatencyQuantile::of(&windows, quantile, level),
        Err(reason) => LatencyQuantile { quantile, ns: Err(reason), observed: None },
    };
    Quantile::ALL.map(of).into()
}

fn misses(samples: &[&Sample], from_ns: u64, level: f64) -> Option<MissShare> {
    let mut trials: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    for sample in samples {
        let latencies = sample.latencies.as_ref()?;
        let trial = trials.entry(sample.trial).or_default();
        trial.0 = trial.0.saturating_add(latencies.from_floor(from_ns));
        trial.1 = trial.1.saturating_add(latencies.total());
    }
    let trials: Vec<(f64, f64)> = trials
        .into_values()
        .filter(|(_, total)| *total > 0)
        .map(|(misses, total)| (misses as f64, total as f64))
        .collect();
    share(&trials, from_ns, level)
}

// Student's t over trials, each of which is one share; but never narrower than what the count of
// operations alone leaves open (Wilson, 1927): trials without any miss are not proof that there are
// none.
fn share(trials: &[(f64, f64)], from_ns: u64, level: f64) -> Option<MissShare> {
    let count = u32::try_from(trials.len()).ok().filter(|count| *count > 0)?;
    let n = f64::from(count);
    let value = trials.iter().map(|(misses, total)| misses / total).sum::<f64>() / n;
    let bounds = (count >= 2 && level > 0.0 && level < 1.0).then(|| {
        let squares: f64 =
            trials.iter().map(|(misses, total)| (misses / total - value).powi(2)).sum();
        let half = t_two_sided(level, count) * (squares / (n - 1.0) / n).sqrt();
        let total: f64 = trials.iter().map(|(_, total)| total).sum();
        let z = Normal::standard().inverse_cdf(0.5 + level / 2.0);
        let middle = (value + z * z / (2.0 * total)) / (1.0 + z * z / total);
        let wilson = z / (1.0 + z * z / total)
            * (value * (1.0 - value) / total + (z / (2.0 * total)).powi(2)).sqrt();
        let low = (value - half).min(middle - wilson).max(0.0);
        (low, (value + half).max(middle + wilson).min(1.0))
    });
    let (low, high) = bounds.unzip();
    Some(MissShare { value, low, high, level, trials: count, from_ns })
}

fn per_unit(samples: &[&Sample]) -> Option<f64> {
    let counts: Vec<u64> = samples.iter().filter_map(|sample| sample.llc_misses).collect();
    let units: u64 = samples.iter().map(|sample| sample.units).sum();
    (counts.len() == samples.len() && units > 0)
        .then(|| counts.iter().map(|count| *count as f64).sum::<f64>() / units as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringfence_experiment::Experiment;
    use ringfence_experiment::class::Class;
    use ringfence_machine::fixtures;
    use ringfence_machine::topology::Topology;

    const SCALE: Scale = Scale {
        clock_ns: 20.0,
        hit_ns: 22.0,
        hit_high_ns: 28.0,
        miss_ns: 110.0,
        miss_low_ns: 96.0,
    };

    fn plan() -> Plan {
        let text = "schema = 2\nname = 'x'\nmetric = 'reader'\nmeasure = { window = '3s' }\n\
            [[role]]\nname = 'reader'\ntask = { workload = 'read' }\n\
            [[role]]\nname = 'noise'\ntask = { workload = 'stream' }\n\
            [[arm]]\nname = 'idle'\nactive = ['reader']\n\
            [[arm]]\nname = 'noisy'\nactive = ['reader', 'noise']\nbaseline = 'idle'\n";
        let experiment = Experiment::parse(text).unwrap();
        Plan::new(&experiment, &Topology::read(&fixtures::vm_2cpu().root()).unwrap(), None).unwrap()
    }

    fn sample(trial: u32, case: u32, buckets: &[(u64, u64)]) -> Sample {
        let latencies = Histogram::from(buckets.to_vec());
        Sample {
            trial,
            position: case,
            step_case: 1,
            case,
            role: "reader".into(),
            class: Class::Sharing,
            length_ns: 1000,
            busy_ns: 1000,
            units: latencies.total(),
            llc_misses: Some(5),
            latencies: Some(latencies),
            ..Sample::default()
        }
    }

    #[test]
    fn cases_are_kept_apart_and_trials_put_together() {
        let mut samples = vec![
            sample(0, 0, &[(24, 100)]),
            sample(0, 1, &[(24, 50), (96, 50)]),
            sample(1, 0, &[(24, 98), (88, 2)]),
            sample(1, 1, &[(24, 70), (112, 30)]),
        ];
        let noise = Sample { role: "noise".into(), latencies: None, ..samples[1].clone() };
        samples.insert(2, noise);
        let found = cases(&plan(), &samples, Some(&SCALE), 0.95);
        assert_eq!(found.len(), 2);
        let [idle, noisy] = [&found[0], &found[1]];
        assert_eq!((idle.arm.as_str(), idle.role.as_str(), idle.unit), ("idle", "reader", "reads"));
        assert_eq!(idle.histogram.buckets(), [(24, 198), (88, 2)]);
        assert_eq!(noisy.histogram.buckets(), [(24, 120), (96, 50), (112, 30)]);
        // 96 ns is the threshold: what is faster than any miss is a hit.
        let misses = idle.misses.unwrap();
        assert_eq!(
            (misses.value, misses.low, misses.trials, misses.from_ns),
            (0.0, Some(0.0), 2, 96)
        );
        assert!(
            misses.high.unwrap() > 0.01 && misses.high.unwrap() < 0.02,
            "200 reads show no less: {misses:?}"
        );
        let misses = noisy.misses.unwrap();
        assert!((misses.value - 0.4).abs() < 1e-12);
        // Two trials: t = 12.7, half the distance of 0.2 is 0.1.
        assert_eq!((misses.low, misses.high), (Some(0.0), Some(1.0)));
        assert_eq!(noisy.counted_misses, Some(0.05));
    }

    #[test]
    fn quantiles_have_intervals_where_there_are_enough() {
        let buckets = [(24, 4000), (26, 4000), (28, 4000)];
        let samples: Vec<Sample> = (0..6).map(|trial| sample(trial, 0, &buckets)).collect();
        let found = &cases(&plan(), &samples, None, 0.95)[0].quantiles;
        assert_eq!(found.len(), 4);
        let median = found[0].ns.unwrap();
        assert!((median.value - 27.0).abs() < 1e-9 && median.trials == 6, "{median:?}");
        let few: Vec<Sample> = (0..6).map(|trial| sample(trial, 0, &[(24, 150)])).collect();
        let found = cases(&plan(), &few, None, 0.95);
        let told: Vec<bool> = found[0].quantiles.iter().map(|of| of.ns.is_ok()).collect();
        assert_eq!(told, [true, true, false, false]);
    }

    // 6 x 10 000 latencies are not few; those that are long all come in one trial.
    #[test]
    fn a_quantile_of_trials_that_differ_is_marked_and_has_its_range() {
        let of = |trial: u32| {
            let slow = if trial == 2 { 9000 } else { 0 };
            sample(trial, 0, &[(24, 10_000 - slow), (4096, slow)])
        };
        let found = &cases(&plan(), &(0..6).map(of).collect::<Vec<_>>(), None, 0.95)[0].quantiles;
        let p90 = found.iter().find(|of| of.quantile == Quantile::P90).unwrap();
        assert!(
            matches!(p90.ns, Err(NotEstimable::TrialsDiffer { counted: 60_000, .. })),
            "{p90:?}"
        );
        let seen = p90.observed.unwrap();
        assert!(seen.low < 30.0 && seen.value > 4000.0 && seen.high >= seen.value, "{seen:?}");
        // Of three trials there is no interval, but many latencies; of few latencies there is
        // neither.
        let three = &cases(&plan(), &(0..3).map(of).collect::<Vec<_>>(), None, 0.95)[0].quantiles;
        assert!(
            three[0].ns.is_err() && three[0].observed.is_some_and(|seen| seen.trials == 3),
            "{three:?}"
        );
        let few: Vec<Sample> = (0..6).map(|trial| sample(trial, 0, &[(24, 10)])).collect();
        assert_eq!(cases(&plan(), &few, None, 0.95)[0].quantiles[2].observed, None);
    }

    // 12 x 6000 latencies: p99.9 has a figure, and curves end where ten are longer.
    #[test]
    fn curves_end_where_ten_are_longer_and_say_what_is_borne() {
        let buckets = [(24, 4000), (26, 1900), (28, 100)];
        let samples: Vec<Sample> = (0..12).map(|trial| sample(trial, 0, &buckets)).collect();
        let one = &cases(&plan(), &samples, None, 0.95)[0];
        let curve = one.curve();
        assert!(
            curve.windows(2).all(|two| two[0].one_in < two[1].one_in && two[0].ns <= two[1].ns)
        );
        let at =
            |one_in: f64| curve.iter().find(|point| (point.one_in - one_in).abs() < 1e-6).unwrap();
        assert_eq!((at(1.0).ns, at(2.0).ns, at(1.0).borne), (24.0, 25.5, true));
        for of in &one.quantiles {
            assert!(
                (at(of.quantile.one_in() as f64).ns - of.ns.unwrap().value).abs() < 1e-9,
                "{of:?}"
            );
        }
        let last = curve.last().unwrap();
        assert!(last.one_in > 6300.0 && last.one_in <= 7200.0, "{last:?}");
        assert_eq!(
            curve.iter().find(|point| !point.borne).map(|point| point.one_in > 1000.1),
            Some(true)
        );
        // Of three trials nothing has a figure.
        let few = &cases(&plan(), &samples[..3], None, 0.95)[0];
        assert!(few.curve().iter().all(|point| !point.borne) && few.curve().len() > 50);
        let none = CaseLatencies { histogram: Histogram::default(), ..few.clone() };
        assert_eq!(none.curve(), []);
    }

    #[test]
    fn steps_with_a_window_that_lasted_too_long_do_not_count() {
        let late = Sample { late_ns: Some(60_000_000_000), ..sample(1, 1, &[(112, 1000)]) };
        let samples =
            [sample(0, 0, &[(24, 100)]), sample(0, 1, &[(24, 60)]), sample(1, 0, &[(24, 7)]), late];
        let found = cases(&plan(), &samples, Some(&SCALE), 0.95);
        assert_eq!(found[0].histogram.buckets(), [(24, 100)]);
        assert_eq!(found[1].histogram.buckets(), [(24, 60)]);
    }

    // What is left is no fair choice: there is no figure of a quantile, as there is none of a mean.
    #[test]
    fn quantiles_have_no_figure_where_too_many_steps_lasted_too_long() {
        let step = |trial: u32, late_ns: u64| {
            let of = |case| Sample {
                late_ns: Some(late_ns),
                ..sample(trial, case, &[(24, 4000), (26, 4000)])
            };
            [of(0), of(1)]
        };
        let told = |late: u32| {
            let samples: Vec<Sample> = (0..20)
                .flat_map(|trial| step(trial, if trial < late { 60_000_000_000 } else { 0 }))
                .collect();
            let found = cases(&plan(), &samples, None, 0.95);
            found.iter().map(|one| one.quantiles[0].ns.map(|ns| ns.trials)).collect::<Vec<_>>()
        };
        assert_eq!(told(1), [Ok(19), Ok(19)]);
        let none = NotEstimable::TooLong { steps: 2, of: 20 };
        assert_eq!(told(2), [Err(none), Err(none)]);
    }

    #[test]
    fn the_interval_is_students_where_trials_differ() {
        let trials: Vec<(f64, f64)> =
            [0.2, 0.3, 0.4].iter().map(|share| (share * 1e6, 1e6)).collect();
        let found = share(&trials, 96, 0.95).unwrap();
        // t with two degrees of freedom 4.3027, standard error 0.1 / sqrt(3).
        let half = 4.302_652_7 * 0.1 / 3f64.sqrt();
        assert!((found.low.unwrap() - (0.3 - half)).abs() < 1e-6, "{found:?}");
        assert!((found.high.unwrap() - (0.3 + half)).abs() < 1e-6, "{found:?}");
        let one = share(&trials[..1], 96, 0.95).unwrap();
        assert_eq!((one.value, one.low, one.high, one.trials), (0.2, None, None, 1));
        assert_eq!(share(&[], 96, 0.95), None);
    }

    #[test]
    fn without_a_scale_or_counters_nothing_is_said_of_misses() {
        let uncounted = Sample { llc_misses: None, ..sample(0, 0, &[(24, 100)]) };
        let samples = [sample(0, 0, &[(24, 100)]), uncounted];
        let found = cases(&plan(), &samples, None, 0.95);
        assert_eq!((found[0].misses, found[0].counted_misses), (None, None));
        assert_eq!(found[0].histogram.total(), 200);
        assert_eq!(cases(&plan(), &[], Some(&SCALE), 0.95), []);
    }
}
