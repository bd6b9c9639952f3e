//! A window from the start to the end of a run of the metric's role.

use std::time::Duration;

use ringfence_experiment::Error;
use ringfence_experiment::plan::Active;

use super::HostEngine;
use super::readings::{Counts, Edge};
use crate::Measured;

// How often a run is looked after; its end is timed by the worker.
const POLL: Duration = Duration::from_millis(2);

impl HostEngine<'_> {
    /// Measures a run from its start to its end; all other roles are already running when it
    /// starts.
    pub(super) fn whole_run(&mut self, active: &[Active]) -> Result<Vec<Measured>, Error> {
        let metric = self.plan.metric;
        let others: Vec<Active> =
            active.iter().copied().filter(|active| active.role != metric).collect();
        let beside = self.crew.settle(&others, &mut self.arms.drifting)?;
        let uses = self.readings.uses(&self.crew, &beside);
        let counts = Counts::of(&mut self.crew, &beside);
        let points = self.crew.reports(&beside)?;
        let begun = Edge { points, at: self.readings.now(), counts };
        let look = self.readings.look();
        self.crew.switch(active)?;
        let halved = self.crew.begin_halving();
        let mut runs = self.crew.running();
        runs.retain(|&worker| self.crew.workers[worker].role == metric);
        self.wait_for_runs(&runs, &beside)?;
        let points = self.crew.reports(&beside)?;
        let at = self.readings.now();
        let ended = Edge { points, at, counts: Counts::of(&mut self.crew, &beside) };
        let looks = look.zip(self.readings.look());
        drop(halved);
        self.crew.all_live(&beside)?;
        self.readings.add_uses(&self.crew, &beside, &uses);
        let mut all = self.readings.measured(&self.crew, &beside, &begun, &ended);
        all.extend(self.readings.measured_runs(&self.crew, &runs));
        self.readings.note_stretch(&mut all, looks);
        Ok(all)
    }

    fn wait_for_runs(&mut self, runs: &[usize], beside: &[usize]) -> Result<(), Error> {
        for &worker in runs {
            while self.crew.slot(worker).latest().1.units == 0 {
                self.may_go_on()?;
                std::thread::sleep(POLL);
                self.crew.none_failed(&[worker])?;
                self.crew.all_live(beside)?;
                self.crew.all_live(runs)?;
            }
        }
        Ok(())
    }
}
