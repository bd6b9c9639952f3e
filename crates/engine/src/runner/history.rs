//! What a resumed measurement already has.

use ringfence_experiment::plan::{Plan, Step};
use ringfence_experiment::sample::Sample;

/// What was measured before by the same plan.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Earlier {
    /// Its samples, in the order of measurement.
    pub(super) samples: Vec<Sample>,
    /// How many steps they are: the first ones of the plan.
    pub(super) steps: u64,
    /// From the dataset's start to the engine's, ns.
    pub(super) offset_ns: u64,
}

impl Earlier {
    /// Takes samples that must be the first steps of the plan, each whole. The windows that follow
    /// start `offset_ns` ns later than the engine says, and never before the last of these ended.
    ///
    /// # Errors
    /// One clause about the first step that is another than the plan's.
    pub fn new(plan: &Plan, samples: Vec<Sample>, offset_ns: u64) -> Result<Self, String> {
        let steps = first_steps(plan, &samples)?;
        let end =
            samples.iter().map(|sample| sample.start_ns.saturating_add(sample.length_ns)).max();
        Ok(Self { steps, offset_ns: offset_ns.max(end.unwrap_or(0)), samples })
    }

    /// From the dataset's start to that of the windows that follow, ns.
    pub fn offset_ns(&self) -> u64 {
        self.offset_ns
    }

    /// How many steps there are.
    pub fn steps(&self) -> u64 {
        self.steps
    }
}

fn first_steps(plan: &Plan, samples: &[Sample]) -> Result<u64, String> {
    let most_trials = plan.experiment.measure.looks.last().copied().unwrap_or(0);
    let (mut rest, mut steps) = (samples, 0);
    for trial in 0..most_trials {
        for (place, step) in super::places(plan, trial, 0) {
            let Some(first) = rest.first() else { return Ok(steps) };
            let key = |sample: &Sample| (sample.trial, sample.round, sample.step);
            let length = rest.iter().take_while(|sample| key(sample) == key(first)).count();
            let (here, after) = rest.split_at(length);
            if key(first) != (place.trial, place.round, place.step) || !is_whole(plan, &step, here)
            {
                return Err(format!(
                    "step {} of round {} of trial {trial} differs from the plan",
                    place.step, place.round
                ));
            }
            (rest, steps) = (after, steps + 1);
        }
    }
    if rest.is_empty() {
        Ok(steps)
    } else {
        Err(format!("it has more than the plan's {most_trials} trials"))
    }
}

// All windows of the step, in each the tasks of its case.
fn is_whole(plan: &Plan, step: &Step, samples: &[Sample]) -> bool {
    let mut wanted = Vec::new();
    for (position, case) in step.windows.iter().enumerate() {
        for active in &plan.cases[*case].active {
            let role = plan.experiment.roles[active.role].name.as_str();
            wanted.extend(
                (0..active.count).map(|instance| (position as u32, *case as u32, role, instance)),
            );
        }
    }
    let mut found: Vec<_> = samples
        .iter()
        .map(|sample| (sample.position, sample.case, &*sample.role, sample.instance))
        .collect();
    wanted.sort_unstable();
    found.sort_unstable();
    wanted == found && samples.iter().all(|sample| sample.step_case as usize == step.case)
}
