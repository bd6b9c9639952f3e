//! What sets the arms of a plan apart, applied before their windows.

use ringfence_experiment::plan::Plan;
use ringfence_limits::{Isolation, Tasks};

use crate::EngineError;

/// The isolation of a plan's arms.
pub struct Arms {
    isolations: Vec<Box<dyn Isolation>>,
    of_case: Vec<usize>,
    /// The arm that was arranged last.
    pub arm: usize,
    /// Whether rates may still change by what was arranged, so that the tasks of the next window run
    /// until they are stable.
    pub drifting: bool,
}

impl Arms {
    /// Prepares the isolation of a plan's arms.
    ///
    /// # Errors
    /// Where something that it needs is missing, is being changed by another process, or refuses.
    pub fn of_plan(plan: &Plan) -> Result<Self, EngineError> {
        let arms = &plan.experiment.arms;
        let arm = |name: &str| arms.iter().position(|arm| arm.name == name).unwrap_or_default();
        let of_case = plan.cases.iter().map(|case| arm(&case.arm)).collect();
        Ok(Self { isolations: ringfence_limits::begin(plan)?, of_case, arm: 0, drifting: false })
    }

    /// Begins a trial, whose tasks run.
    ///
    /// # Errors
    /// What is refused.
    pub fn begin_trial(&mut self, tasks: &dyn Tasks) -> Result<(), EngineError> {
        self.isolations.iter_mut().try_for_each(|isolation| isolation.begin_trial(tasks))?;
        Ok(())
    }

    /// Ends a trial, whose tasks still run.
    pub fn end_trial(&mut self, tasks: &dyn Tasks) {
        self.isolations.iter_mut().for_each(|isolation| isolation.end_trial(tasks));
    }

    /// Applies the settings of a case's arm.
    ///
    /// # Errors
    /// What is refused.
    pub fn arrange(&mut self, case: usize, tasks: &dyn Tasks) -> Result<(), EngineError> {
        self.arm = self.of_case[case];
        for isolation in &mut self.isolations {
            self.drifting |= isolation.set(self.arm, tasks)?;
        }
        Ok(())
    }

    /// Restores what was changed, one after the other, each even if another fails. Returns what the
    /// user should know.
    pub fn end(&mut self) -> impl Iterator<Item = Result<Vec<String>, EngineError>> {
        self.isolations.drain(..).map(|isolation| Ok(isolation.end()?))
    }
}
