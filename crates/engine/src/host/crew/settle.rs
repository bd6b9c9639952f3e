//! When a task has settled: measured, not assumed.
//!
//! After a pause its lines may be anywhere, and a cache can take several rounds over a footprint
//! before it keeps it: on a Xeon whose L3 takes lines only as L2 evicts them, a 3 MiB chase ran at
//! the memory's latency for several rounds after a pause of 3 ms. So a task that names a round runs
//! until two rounds in a row take about the same time.

use std::time::{Duration, Instant};

use ringfence_experiment::Error;
use ringfence_experiment::plan::Active;

use super::Crew;

use crate::shm::Report;

// A task that asks for longer to settle is measured unsettled: the window shows what it does then.
const SETTLE_LIMIT: Duration = Duration::from_millis(200);
// How often rates are compared after a change that takes effect slowly.
const SLICE: Duration = Duration::from_millis(50);

// The first round brings everything in, the second shows where it stays.
const LEAST_ROUNDS: u32 = 3;
// A rate that swings by itself, as a simplex's does, never stands still.
const MOST_ROUNDS: u32 = 10;
const ALIKE: f64 = 0.05;

/// Follows one task from its start to its steady state.
#[derive(Debug)]
pub struct Settling {
    round: u64,
    from: Report,
    last: Option<f64>,
    rounds: u32,
}

impl Settling {
    /// Begins at the task's current report; `round` is the number of units in a round, 0 for tasks
    /// that need none.
    pub fn new(round: u64, from: Report) -> Self {
        Self { round, from, last: None, rounds: 0 }
    }

    /// Takes a later report; whether the task has settled.
    pub fn settled(&mut self, now: Report) -> bool {
        if self.round == 0 || self.rounds >= MOST_ROUNDS {
            return true;
        }
        let done = now.units.saturating_sub(self.from.units);
        if done < self.round {
            return false;
        }
        let pace = now.ticks.saturating_sub(self.from.ticks) as f64 / done as f64;
        let alike = self.last.is_some_and(|last| (pace / last - 1.0).abs() < ALIKE);
        self.rounds += u32::try_from(done / self.round).unwrap_or(MOST_ROUNDS);
        self.last = Some(pace);
        self.from = now;
        (alike && self.rounds >= LEAST_ROUNDS) || self.rounds >= MOST_ROUNDS
    }
}

// Slices in each of the two stretches that are compared.
const STRETCH: usize = 8;
const SMALL: f64 = 0.02;

/// Follows a rate, slice by slice, until it is stable: its mean over the last stretch and over the
/// one before differ by less than two percent, or by less than the noise lets tell.
#[derive(Debug, Clone, Default)]
pub struct Drift {
    rates: Vec<f64>,
}

impl Drift {
    /// Adds a slice's rate, and returns whether the rate is stable.
    pub fn stands_still(&mut self, rate: f64) -> bool {
        self.rates.push(rate);
        let Some(start) = self.rates.len().checked_sub(2 * STRETCH) else { return false };
        let (earlier, later) = self.rates[start..].split_at(STRETCH);
        let mean = |of: &[f64]| of.iter().sum::<f64>() / STRETCH as f64;
        let (a, b) = (mean(earlier), mean(later));
        let squares =
            |of: &[f64], mean: f64| of.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>();
        let n = STRETCH as f64;
        let error = ((squares(earlier, a) + squares(later, b)) / (n * (n - 1.0))).sqrt();
        (b - a).abs() <= (SMALL * a.abs()).max(error)
    }
}

impl Crew<'_> {
    /// Runs exactly the tasks given until they have settled, and if rates may drift, until they are
    /// stable. Returns the workers that run.
    pub fn settle(&mut self, active: &[Active], drifting: &mut bool) -> Result<Vec<usize>, Error> {
        self.calm_down()?;
        self.switch(active)?;
        let running = self.running();
        self.wait_until_settled(&running);
        if std::mem::take(drifting) {
            self.wait_out_drift(&running)?;
        }
        Ok(running)
    }

    // No task runs for as long as the plan requires between two windows. Tasks that have paused
    // have synced their files.
    fn calm_down(&mut self) -> Result<(), Error> {
        if let Some(calm) = self.plan.calm() {
            self.switch(&[])?;
            std::thread::sleep(calm.idle);
        }
        Ok(())
    }

    fn wait_until_settled(&self, running: &[usize]) {
        let begun = Instant::now();
        let lead_in = self.plan.calm().unwrap_or_default().lead_in;
        let least = self.plan.experiment.measure.settle.0.max(lead_in);
        let follow = |&worker: &usize| {
            let slot = self.slot(worker);
            (worker, Settling::new(slot.settle_units(), slot.latest().1))
        };
        let mut tasks: Vec<(usize, Settling)> = running.iter().map(follow).collect();
        let limit = SETTLE_LIMIT.max(least);
        loop {
            tasks.retain_mut(|(worker, settling)| !settling.settled(self.slot(*worker).latest().1));
            let left = if tasks.is_empty() { least } else { limit }.saturating_sub(begun.elapsed());
            if left.is_zero() {
                return;
            }
            let step = if tasks.is_empty() { left } else { left.min(Duration::from_millis(1)) };
            std::thread::sleep(step);
        }
    }

    // Lets the running tasks continue until each one's rate is stable, at most as long as the
    // experiment allows; what still changes then is measured as it is.
    fn wait_out_drift(&mut self, running: &[usize]) -> Result<(), Error> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn report(units: u64, ticks: u64) -> Report {
        Report { units, ticks, untimed: 0 }
    }

    #[test]
    fn two_rounds_alike_settle_a_task_but_not_the_first_two() {
        let mut settling = Settling::new(100, report(1000, 0));
        assert!(!settling.settled(report(1050, 50)), "half a round");
        assert!(!settling.settled(report(1100, 1000)), "the first round");
        assert!(!settling.settled(report(1200, 2000)), "alike, but only two");
        assert!(!settling.settled(report(1300, 2500)), "faster");
        assert!(settling.settled(report(1400, 3010)), "as fast as before");
    }

    #[test]
    fn a_swinging_rate_is_not_waited_for_and_no_round_means_no_wait() {
        assert!(Settling::new(0, report(0, 0)).settled(report(0, 0)));
        let mut swinging = Settling::new(1, report(0, 0));
        let rounds = (1..100).position(|n| swinging.settled(report(n, n * n * n))).unwrap() + 1;
        assert_eq!(rounds as u32, MOST_ROUNDS);
    }

    #[test]
    fn a_drift_is_waited_out_and_noise_is_not() {
        let after = |rate: &dyn Fn(usize) -> f64| {
            let mut drift = Drift::default();
            (0..10_000).position(|slice| drift.stands_still(rate(slice)))
        };
        let least = Some(2 * STRETCH - 1);
        assert_eq!(after(&|_| 5.0), least);
        assert_eq!(after(&|_| 0.0), least, "a task that does nothing");
        let noisy = |slice: usize| 1.0 + 0.3 * if slice.is_multiple_of(2) { 1.0 } else { -1.0 };
        assert_eq!(after(&noisy), least);
        // Towards its end by a half every 20 slices: within two percent over a stretch after some
        // 60.
        let drifting = |slice: usize| 1.0 - 0.8 * 0.5f64.powf(slice as f64 / 20.0);
        let still = after(&drifting).unwrap();
        assert!((60..160).contains(&still), "{still}");
        assert!(drifting(still) > 0.9 * drifting(10_000), "{}", drifting(still));
    }
}
