//! When a task has settled: measured, not assumed.
//!
//! After a pause its lines may be anywhere, and a cache can take several rounds over a footprint
//! before it keeps it: on a Xeon whose L3 takes lines only as L2 evicts them, a 3 MiB chase ran at the
//! memory's latency for several rounds after a pause of 3 ms. So a task that names a round runs until
//! two rounds in a row take about the same time.

use super::shm::Report;

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
    /// Begins at the task's present report; a round is so many units, 0 for tasks that need none.
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
}
