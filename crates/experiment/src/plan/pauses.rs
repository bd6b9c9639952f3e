//! The cases for which running processes are paused.

use super::Plan;
use crate::experiment::{Freezing, Limit};
use std::time::Duration;

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

    // The extra time of a case whose arm pauses running processes in slices.
    pub(super) fn sliced(&self, case: usize) -> Duration {
        let measure = &self.experiment.measure;
        let arm = self.experiment.arms.iter().find(|arm| arm.name == self.cases[case].arm);
        let limits = arm.into_iter().flat_map(|arm| arm.limits.values()).flatten();
        let freezing = measure.freezing.unwrap_or_default();
        let slices = limits.filter_map(|limit| match limit {
            Limit::Frozen(share) => Some(freezing.slices(measure.window.0, *share)),
            _ => None,
        });
        slices.max().unwrap_or_default()
    }
}
