//! For which cases what runs already is paused.

use super::Plan;
use crate::experiment::Freezing;

impl Plan {
    /// The limits for what is attached, where any is paused for a case's baseline or for itself.
    pub fn pauses(&self, case: usize) -> Option<Freezing> {
        let attached = |case: usize| {
            let active = self.cases[case].active.iter();
            active
                .filter(|active| self.variants[active.role][active.variant].task.is_attached())
                .map(|active| active.role)
                .collect::<Vec<_>>()
        };
        let own = attached(case);
        let differs = self.cases[case].others().any(|other| attached(other) != own);
        differs.then(|| self.experiment.measure.freezing.unwrap_or_default())
    }
}
