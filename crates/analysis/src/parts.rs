//! When harm came in an episode: while the aggressors ran, or after they had stopped.

use ringfence_experiment::plan::Plan;
use ringfence_experiment::quantity::Quantity;
use ringfence_experiment::sample::Sample;
use serde::Serialize;

use crate::estimate::{self, Estimate};
use crate::windows::{Lost, Windows};

/// A slowdown of the mean time in each part of an episode, against the same part of the episode
/// without aggressors.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "EpisodeParts"))]
pub struct Parts {
    /// While the aggressors ran.
    #[serde(serialize_with = "estimate::serialize_estimate")]
    pub beside: Estimate,
    /// After they had stopped.
    #[serde(serialize_with = "estimate::serialize_estimate")]
    pub tail: Estimate,
    /// The longest unit of work after they had stopped, over the longest in the same part without
    /// aggressors: a few long stalls hardly show in the mean of a hundred thousand commits.
    #[serde(serialize_with = "estimate::serialize_estimate")]
    pub longest: Estimate,
    /// How long they ran, s: the mean over episodes and aggressors. Less than they were given where
    /// they reached their limits.
    #[cfg_attr(feature = "schema", schemars(range(min = 0.0)))]
    pub ran_s: f64,
}

/// Episodes taken apart.
pub(crate) struct Parted {
    beside: Windows,
    tail: Windows,
    // The longest unit in the tail as the only one.
    longest: Windows,
    // By case: how long aggressors ran, s.
    ran_s: Vec<f64>,
}

impl Parted {
    pub(crate) fn of(plan: &Plan, samples: &[Sample], lost: &Lost) -> Self {
        let metric = plan.experiment.metric.as_str();
        // Only units and times are cut: these are the mean's.
        let own = || samples.iter().filter(|sample| *sample.role == *metric);
        let whole = |sample: &Sample| Sample { latencies: None, ..sample.clone() };
        let tail = own().filter_map(|sample| {
            Some(Sample {
                units: sample.tail_units?,
                busy_ns: sample.tail_busy_ns?,
                ..whole(sample)
            })
        });
        let beside = own().filter_map(|sample| {
            let units = sample.units.saturating_sub(sample.tail_units?);
            let busy_ns = sample.busy_ns.saturating_sub(sample.tail_busy_ns?);
            Some(Sample { units, busy_ns, ..whole(sample) })
        });
        let longest = own().filter_map(|sample| {
            Some(Sample { units: 1, busy_ns: longest_in_tail(sample)?, ..whole(sample) })
        });
        let windows = |samples: Vec<Sample>| Windows::about(Quantity::Mean, plan, &samples, lost);
        let ran_s = |case: usize| {
            let others = samples.iter().filter(|s| s.case as usize == case && *s.role != *metric);
            let (sum, count) =
                others.fold((0.0, 0_u32), |(sum, count), s| (sum + s.length_ns as f64, count + 1));
            sum / f64::from(count.max(1)) / 1e9
        };
        Self {
            beside: windows(beside.collect()),
            tail: windows(tail.collect()),
            longest: windows(longest.collect()),
            ran_s: (0..plan.cases.len()).map(ran_s).collect(),
        }
    }

    pub(crate) fn of_case(&self, case: usize, level: f64) -> Parts {
        Parts {
            beside: self.beside.slowdown(case, level),
            tail: self.tail.slowdown(case, level),
            longest: self.longest.slowdown(case, level),
            ran_s: self.ran_s[case],
        }
    }
}

// Of the stretches that lie in the tail for the most part.
fn longest_in_tail(sample: &Sample) -> Option<u64> {
    let stretches = sample.stretches.as_ref()?;
    let last = stretches.last()?;
    let begins = (last.start_ns + last.length_ns).saturating_sub(sample.tail_busy_ns?);
    let within = stretches.iter().filter(|one| one.start_ns + one.length_ns / 2 >= begins);
    within.filter_map(|one| one.longest_ns).max()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ringfence_experiment::Experiment;
    use ringfence_experiment::placement::Placed;
    use ringfence_experiment::plan::{Active, Case};
    use ringfence_experiment::stretch::Stretch;

    use super::*;
    use crate::results;

    fn plan(measure: &str) -> Plan {
        let text = format!(
            "schema = 2\nname = 'x'\nmetric = 'victim'\n[measure]\n{measure}\n[[role]]\nname = \
             'victim'\ntask = {{ workload = 'commit' }}\n\
            [[role]]\nname = 'other'\ntask = {{ workload = 'dirty' }}\n[[arm]]\nname = \
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

    const S: u64 = 1_000_000_000;

    // Alone 1000 commits a second; beside 500 in each of 40 s, and 100 in each of the 10 s after
    // them.
    fn samples() -> Vec<Sample> {
        let mut all = Vec::new();
        for trial in 0..6 {
            let sample = |case: u32, role: &str, units, tail_units, length_ns| Sample {
                trial,
                position: case,
                step_case: 1,
                case,
                role: Arc::from(role),
                length_ns,
                busy_ns: length_ns,
                units,
                tail_units,
                tail_busy_ns: tail_units.map(|_| 10 * S),
                // Before the tail and in it; the first is the longer one, and of no account.
                stretches: tail_units.map(|tail| {
                    let longest = S / tail + u64::from(trial);
                    let one = |start_ns, length_ns, longest_ns| Stretch {
                        start_ns,
                        length_ns,
                        longest_ns: Some(longest_ns),
                        ..Stretch::default()
                    };
                    Arc::new([
                        one(0, 40 * S, S),
                        one(40 * S, 5 * S, longest),
                        one(45 * S, 5 * S, 7),
                    ]) as Arc<[Stretch]>
                }),
                ..Sample::default()
            };
            // Trials differ a little, or there would be no interval.
            let drift = u64::from(trial);
            all.push(sample(0, "victim", 50_000 + drift, Some(10_000), 50 * S));
            all.push(sample(1, "victim", 21_000 + drift, Some(1_000), 50 * S));
            all.push(sample(1, "other", 9 << 30, None, 40 * S));
        }
        all
    }

    #[test]
    fn each_part_is_compared_with_the_same_part_alone() {
        let plan = plan("episode = { beside = '40s', tail = '10s' }");
        let effect = results::results(&plan, &samples(), 0.95).remove(0).effect.unwrap();
        let parts = effect.parts.unwrap();
        let near = |estimate: crate::estimate::Estimate, expected: f64| {
            let interval = estimate.unwrap();
            assert!(
                (interval.value - expected).abs() < 0.001 * expected,
                "{interval:?}, not {expected}"
            );
        };
        near(parts.beside, 2.0);
        near(parts.tail, 10.0);
        near(parts.longest, 10.0);
        // What both came to.
        near(effect.by_class.all.slowdown, 50.0 / 21.0);
        assert!((parts.ran_s - 40.0).abs() < 1e-9);
    }

    #[test]
    fn windows_have_no_parts() {
        let plan = plan("window = '400ms'");
        let effect = results::results(&plan, &samples(), 0.95).remove(0).effect.unwrap();
        assert_eq!(effect.parts, None);
    }
}
