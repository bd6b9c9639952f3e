//! A stage of a study, measured now or read from its dataset.

use ringfence_dataset::Dataset;
use ringfence_engine::Used;
use ringfence_experiment::Kind;
use ringfence_experiment::plan::Plan;
use ringfence_experiment::sample::{self, Sample};
use ringfence_experiment::start::Start;

use crate::measure::Measurement;

/// A stage as far as it was measured.
#[derive(Debug, Clone, Copy)]
pub struct Stage<'a> {
    /// Its plan.
    pub plan: &'a Plan,
    /// Its samples.
    pub samples: &'a [Sample],
    /// How fast a chase as the victim was alone at its starts.
    pub starts: &'a [Start],
    /// Those of them that were measured now, and not by an earlier run.
    pub fresh: &'a [Sample],
    /// What each role's processes have used in the windows that were measured now; empty where none
    /// were.
    pub used: &'a [Used],
    /// Whether it has come to its end.
    pub is_done: bool,
}

impl<'a> From<&'a Measurement> for Stage<'a> {
    fn from(done: &'a Measurement) -> Self {
        Self {
            plan: &done.plan,
            samples: &done.samples,
            fresh: after(&done.samples, done.steps_before),
            starts: &done.starts,
            used: &done.used,
            is_done: done.ended.is_planned(),
        }
    }
}

impl<'a> From<&'a Dataset> for Stage<'a> {
    fn from(dataset: &'a Dataset) -> Self {
        Self {
            plan: &dataset.plan,
            samples: &dataset.samples,
            fresh: &[],
            starts: &dataset.manifest.starts,
            used: &[],
            is_done: dataset.is_done(),
        }
    }
}

// The samples behind so many steps.
fn after(samples: &[Sample], steps: u64) -> &[Sample] {
    let before = sample::steps(samples).take(steps as usize).map(<[_]>::len);
    &samples[before.sum()..]
}

impl<'a> Stage<'a> {
    /// One that has come to its end, of which nothing more is known.
    pub fn of(plan: &'a Plan, samples: &'a [Sample]) -> Self {
        Self { plan, samples, fresh: samples, starts: &[], used: &[], is_done: true }
    }

    /// The first of some kind.
    pub fn find(stages: &[Self], is_it: impl Fn(&Kind) -> bool) -> Option<Stage<'a>> {
        stages.iter().copied().find(|stage| stage.plan.experiment.kind.as_ref().is_some_and(&is_it))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_measured_now_is_what_follows_the_earlier_steps() {
        let sample = |trial, step, position| Sample { trial, step, position, ..Sample::default() };
        let all =
            [sample(0, 0, 0), sample(0, 0, 1), sample(0, 1, 0), sample(1, 1, 0), sample(1, 1, 1)];
        for (steps, left) in [(0, 5), (1, 3), (2, 2), (3, 0), (9, 0)] {
            assert_eq!(after(&all, steps).len(), left, "{steps}");
        }
    }
}
