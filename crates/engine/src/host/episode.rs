//! Episodes: windows in which the metric's role keeps running after the others have stopped.

use std::time::{Duration, Instant};

use ringfence_experiment::Episode;
use ringfence_experiment::plan::Active;

use super::super::{EngineError, Measured};
use super::HostEngine;
use super::stretches::Series;
use super::windows::counted_since;

// How often it is looked at whether anything has ended meanwhile.
const POLL: Duration = Duration::from_millis(20);

impl HostEngine<'_> {
    /// Runs all roles, then the metric's role alone. What the others have left is not synced before
    /// the next window.
    pub(super) fn episode(
        &mut self,
        active: &[Active],
        episode: Episode,
    ) -> Result<Vec<Measured>, EngineError> {
        let metric = self.plan.metric;
        let running = self.crew.settle(active, &mut self.drifting)?;
        let (own, others): (Vec<usize>, Vec<usize>) =
            running.iter().partition(|&&worker| self.crew.workers[worker].role == metric);
        let (used, since) = (self.uses(&running), Instant::now());
        let halved = self.crew.begin_halving();
        let counts_before = [self.counts(&own), self.counts(&others)];
        let begun = [self.crew.reports(&own)?, self.crew.reports(&others)?];
        let begun_at = self.clock.now();
        let mut series = self.begin_series(own.first(), begun[0].first());
        let mut late = self.let_run(&running, episode.beside.0, &others, &mut series)?;
        self.crew.hold(&others)?;
        // A writer may have been kept in its last write for long: until then it has not stopped.
        let stopped = self.crew.reports(&own)?;
        let stopped_at = self.clock.now();
        self.follow_to(&mut series, stopped.first());
        let counts_of_others = self.counts(&others);
        let held = self.crew.last_reports(&others);
        late += self.let_run(&running, episode.tail.0, &[], &mut series)?;
        let ended = self.crew.reports(&own)?;
        let ended_at = self.clock.now();
        self.follow_to(&mut series, ended.first());
        let counts_of_own = self.counts(&own);
        drop(halved);
        self.crew.all_live(&running)?;
        self.add_uses(&running, &used, since.elapsed());
        let [own_before, others_before] = counts_before;
        let [own_begun, others_begun] = begun;
        let nothing = vec![None; own.len()];
        let tail = self.measured(&own, &stopped, &ended, Some((stopped_at, ended_at)), nothing);
        let counts = counted_since(own_before, counts_of_own);
        let mut all = self.measured(&own, &own_begun, &ended, Some((begun_at, ended_at)), counts);
        for (whole, tail) in all.iter_mut().zip(tail) {
            whole.tail_units = Some(tail.units);
            // Parts that end in a silence overlap by it.
            whole.tail_busy_ns = Some(tail.busy_ns.min(whole.busy_ns));
        }
        if let (Some(first), Some(series)) = (all.first_mut(), series) {
            first.stretches = Some(series.ended().into());
        }
        let counts = counted_since(others_before, counts_of_others);
        all.extend(self.measured(
            &others,
            &others_begun,
            &held,
            Some((begun_at, stopped_at)),
            counts,
        ));
        all.iter_mut().for_each(|task| task.late_ns = Some(late.as_nanos() as u64));
        Ok(all)
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
    ) -> Result<Duration, EngineError> {
        let begun = Instant::now();
        loop {
            let left = length.saturating_sub(begun.elapsed());
            if left.is_zero() {
                return Ok(begun.elapsed().saturating_sub(length));
            }
            std::thread::sleep(left.min(POLL));
            self.follow(series);
            self.may_go_on()?;
            self.crew.none_failed(running)?;
            self.crew.all_live(running)?;
            if self.crew.all_spent(until_spent) {
                return Ok(Duration::ZERO);
            }
        }
    }
}
