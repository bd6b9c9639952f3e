//! A stage of a study, measured now or read from its dataset.

use ringfence_dataset::Dataset;
use ringfence_engine::Used;
use ringfence_experiment::Kind;
use ringfence_experiment::plan::Plan;
use ringfence_experiment::sample::Sample;
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
    /// What each role's processes have used in the windows that were measured now; empty where none were.
    pub used: &'a [Used],
    /// Whether it has come to its end.
    pub is_done: bool,
}

impl<'a> From<&'a Measurement> for Stage<'a> {
    fn from(done: &'a Measurement) -> Self {
        Self {
            plan: &done.plan,
            samples: &done.samples,
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
            starts: &dataset.manifest.starts,
            used: &[],
            is_done: dataset.is_done(),
        }
    }
}

impl<'a> Stage<'a> {
    /// One that has come to its end, of which nothing more is known.
    pub fn of(plan: &'a Plan, samples: &'a [Sample]) -> Self {
        Self { plan, samples, starts: &[], used: &[], is_done: true }
    }

    /// The first of some kind.
    pub fn find(stages: &[Self], is_it: impl Fn(&Kind) -> bool) -> Option<Stage<'a>> {
        stages.iter().copied().find(|stage| stage.plan.experiment.kind.as_ref().is_some_and(&is_it))
    }
}
