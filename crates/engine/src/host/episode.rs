//! Episodes: windows in which the metric's role keeps running after the others have stopped.

use std::time::{Duration, Instant};

use ringfence_experiment::Episode;
use ringfence_experiment::Error;
use ringfence_experiment::plan::Active;

use super::HostEngine;
use super::readings::{Counts, Edge, Series};
use crate::Measured;

// How often it is looked at whether anything has ended meanwhile.
const POLL: Duration = Duration::from_millis(20);

impl HostEngine<'_> {
    /// Runs all roles, then the metric's role alone. What the others have left is not synced before
    /// the next window.
    pub(super) fn episode(
        &mut self,
        active: &[Active],
        episode: Episode,
    ) -> Result<Vec<Measured>, Error> {
        let metric = self.plan.metric;
        let running = self.crew.settle(active, &mut self.arms.drifting)?;
        let (own, others): (Vec<usize>, Vec<usize>) =
            running.iter().partition(|&&worker| self.crew.workers[worker].role == metric);
        let uses = self.readings.uses(&self.crew, &running);
        let halved = self.crew.begin_halving();
        let [begun, others_begun] = self.open(&own, &others)?;
        let mut series = self.readings.begin_series(own.first(), begun.points.first());
        let mut late = self.let_run(&running, episode.beside.0, &others, &mut series)?;
        let [stopped, held] = self.stop(&own, &others, &mut series)?;
        late += self.let_run(&running, episode.tail.0, &[], &mut series)?;
        let ended = self.close(&own, &mut series)?;
        drop(halved);
        self.crew.all_live(&running)?;
        self.readings.add_uses(&self.crew, &running, &uses);
        let tail = self.readings.measured(&self.crew, &own, &stopped, &ended);
        let mut all = self.readings.measured(&self.crew, &own, &begun, &ended);
        for (whole, tail) in all.iter_mut().zip(tail) {
            whole.tail_units = Some(tail.units);
            // Parts that end in a silence overlap by it.
            whole.tail_busy_ns = Some(tail.busy_ns.min(whole.busy_ns));
        }
        if let (Some(first), Some(series)) = (all.first_mut(), series) {
            first.stretches = Some(series.ended().into());
        }
        all.extend(self.readings.measured(&self.crew, &others, &others_begun, &held));
        all.iter_mut().for_each(|task| task.late_ns = Some(late.as_nanos() as u64));
        Ok(all)
    }

    // Opens an episode, for the metric's workers and for the others.
    fn open(&mut self, own: &[usize], others: &[usize]) -> Result<[Edge; 2], Error> {
        let [own_counts, others_counts] =
            [own, others].map(|workers| Counts::of(&mut self.crew, workers));
        let (points, others_points) = (self.crew.reports(own)?, self.crew.reports(others)?);
        let at = self.readings.now();
        Ok([
            Edge { points, at, counts: own_counts },
            Edge { points: others_points, at, counts: others_counts },
        ])
    }

    // Stops the others. Their window ends here, and the metric's tail begins.
    fn stop(
        &mut self,
        own: &[usize],
        others: &[usize],
        series: &mut Option<Series>,
    ) -> Result<[Edge; 2], Error> {
        self.crew.hold(others)?;
        // A writer may have been kept in its last write for long: until then it has not stopped.
        let points = self.crew.reports(own)?;
        let at = self.readings.now();
        self.readings.follow_to(series, points.first());
        let counts = Counts::of(&mut self.crew, others);
        let held = Edge { points: self.crew.last_reports(others), at, counts };
        Ok([Edge { points, at, counts: vec![None; own.len()] }, held])
    }

    fn close(&mut self, own: &[usize], series: &mut Option<Series>) -> Result<Edge, Error> {
        let points = self.crew.reports(own)?;
        let at = self.readings.now();
        self.readings.follow_to(series, points.first());
        Ok(Edge { points, at, counts: Counts::of(&mut self.crew, own) })
    }

    // Waits for so long, or until all of these, if there are any, have reached their limits.
    // Returned is how much later than that it was seen that the time was over. Meanwhile the disk
    // is looked at.
    fn let_run(
        &mut self,
        running: &[usize],
        length: Duration,
        until_spent: &[usize],
        series: &mut Option<Series>,
    ) -> Result<Duration, Error> {
        let begun = Instant::now();
        loop {
            let left = length.saturating_sub(begun.elapsed());
            if left.is_zero() {
                return Ok(begun.elapsed().saturating_sub(length));
            }
            std::thread::sleep(left.min(POLL));
            self.readings.follow(&self.crew, series);
            self.may_go_on()?;
            self.crew.none_failed(running)?;
            self.crew.all_live(running)?;
            if self.crew.all_spent(until_spent) {
                return Ok(Duration::ZERO);
            }
        }
    }
}
