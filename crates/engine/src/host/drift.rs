//! Waiting until rates are stable after a change that takes effect slowly.

use std::time::{Duration, Instant};

use super::super::EngineError;
use super::super::settle::Drift;
use super::HostEngine;

const SLICE: Duration = Duration::from_millis(50);

impl HostEngine<'_> {
    /// Lets the running tasks continue until each one's rate is stable, at most as long as the
    /// experiment allows; what still changes then is measured as it is.
    pub(super) fn wait_out_drift(&mut self, running: &[usize]) -> Result<(), EngineError> {
        if !std::mem::take(&mut self.drifting) {
            return Ok(());
        }
        let limit = self.plan.experiment.measure.isolation_settle.0;
        let begun = Instant::now();
        let mut last = self.reports(running)?;
        let mut drifts = vec![Drift::default(); running.len()];
        while begun.elapsed() < limit {
            std::thread::sleep(SLICE);
            let now = self.reports(running)?;
            let mut still = true;
            for ((drift, from), to) in drifts.iter_mut().zip(&last).zip(&now) {
                let (from, to) = (from.report, to.report);
                let ticks =
                    to.ticks.saturating_sub(from.ticks).saturating_sub(to.untimed - from.untimed);
                still &= drift.stands_still((to.units - from.units) as f64 / ticks.max(1) as f64);
            }
            if still {
                return Ok(());
            }
            last = now;
        }
        Ok(())
    }
}
