//! Plans that were carried out earlier.

use super::{Active, Case, NotRun, Plan, metric, variants};
use crate::Error;
use crate::Experiment;
use crate::placement::Placed;

impl Plan {
    /// Restores a plan that was carried out earlier, perhaps on another machine: its decisions are
    /// kept, and checked to fit the experiment.
    ///
    /// # Errors
    /// One sentence where the parts do not belong together.
    pub fn stored(
        experiment: Experiment,
        cases: Vec<Case>,
        not_run: Vec<NotRun>,
        placed: Placed,
    ) -> Result<Self, Error> {
        experiment.check()?;
        let variants = variants(&experiment)?;
        let metric = metric(&experiment);
        let plan = Self { experiment, variants, metric, cases, not_run, placed };
        plan.misfit().map_or(Ok(plan), |misfit| Err(Error::usage(misfit)))
    }

    fn misfit(&self) -> Option<String> {
        let exists = |active: &Active| {
            self.variants.get(active.role).is_some_and(|variants| active.variant < variants.len())
        };
        for (number, case) in self.cases.iter().enumerate() {
            if !case.active.iter().all(exists) {
                return Some(format!(
                    "case {number} runs a role or a task that the experiment does not have"
                ));
            }
            if !case.active.iter().any(|active| active.role == self.metric) {
                return Some(format!("case {number} does not run '{}'", self.experiment.metric));
            }
            if case.others().any(|other| other >= self.cases.len()) {
                return Some(format!("case {number} is measured with a case that does not exist"));
            }
        }
        if self.not_run.iter().any(|not_run| not_run.case >= self.cases.len()) {
            return Some("a case that does not exist is listed as not run".into());
        }
        if self.placed.cpus.len() != self.variants.len() {
            return Some(format!(
                "{} roles are placed, {} exist",
                self.placed.cpus.len(),
                self.variants.len()
            ));
        }
        None
    }
}
