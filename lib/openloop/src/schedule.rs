//! When questions are due.

/// Due times: a start plus whole periods, so that nothing drifts. Times are ns on one clock.
#[derive(Debug, Clone)]
pub struct Schedule {
    /// Questions per second.
    rate: f64,
    /// When the question with number 0 is due.
    start: u64,
    /// The number of the next question since the start.
    next: u64,
    /// From when on nothing is due: the probe is paused.
    end: Option<u64>,
}

impl Schedule {
    /// Nothing is due until [`Self::resume`].
    pub fn paused(rate: f64) -> Self {
        Self { rate, start: 0, next: 0, end: Some(0) }
    }

    /// Questions are due from now on.
    pub fn resume(&mut self, now: u64) {
        if self.end.is_some() {
            (self.start, self.next, self.end) = (now, 0, None);
        }
    }

    /// Nothing is due from now on. What was due before and was not taken yet stays due.
    pub fn pause(&mut self, now: u64) {
        self.end.get_or_insert(now);
    }

    /// When the next question is due.
    pub fn next_due(&self) -> Option<u64> {
        // In f64 the product is exact to 2^53 ns, 104 days, which is more than one stretch between
        // pauses lasts.
        let due = self.start + (self.next as f64 * 1e9 / self.rate) as u64;
        self.end.is_none_or(|end| due < end).then_some(due)
    }

    /// Takes the next question if it is due.
    pub fn take(&mut self, now: u64) -> Option<u64> {
        let due = self.next_due().filter(|due| *due <= now)?;
        self.next += 1;
        Some(due)
    }

    /// In a closed loop, no question is due before the answer to the one before.
    pub fn not_before(&mut self, time: u64) {
        if self.next_due().is_some_and(|due| due < time) {
            (self.start, self.next) = (time, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(schedule: &mut Schedule, now: u64) -> Vec<u64> {
        std::iter::from_fn(|| schedule.take(now)).collect()
    }

    #[test]
    fn due_times_are_whole_periods_and_do_not_drift() {
        let mut schedule = Schedule::paused(3.0);
        assert_eq!(schedule.next_due(), None);
        schedule.resume(1_000);
        for n in 0..3_000_000 {
            schedule.next = n;
            let exact = 1_000 + n * 1_000_000_000 / 3;
            assert!(schedule.next_due().unwrap().abs_diff(exact) <= 1, "{n}");
        }
    }

    #[test]
    fn what_was_missed_is_due_at_its_own_time() {
        let mut schedule = Schedule::paused(1_000_000.0);
        schedule.resume(5_000);
        assert_eq!(taken(&mut schedule, 4_999), []);
        assert_eq!(taken(&mut schedule, 8_100), [5_000, 6_000, 7_000, 8_000]);
    }

    #[test]
    fn nothing_is_due_in_a_pause_and_what_was_due_before_is_not_lost() {
        let mut schedule = Schedule::paused(1_000_000.0);
        schedule.resume(0);
        schedule.pause(2_000);
        schedule.pause(9_000);
        assert_eq!(taken(&mut schedule, 50_000), [0, 1_000]);
        assert_eq!(schedule.next_due(), None);
        schedule.resume(60_000);
        schedule.resume(60_500);
        assert_eq!(taken(&mut schedule, 61_000), [60_000, 61_000]);
    }

    #[test]
    fn a_closed_loop_waits_and_then_keeps_its_distance() {
        let mut schedule = Schedule::paused(1_000_000.0);
        schedule.resume(0);
        assert_eq!(schedule.take(0), Some(0));
        schedule.not_before(300);
        assert_eq!(schedule.next_due(), Some(1_000));
        assert_eq!(schedule.take(1_000), Some(1_000));
        schedule.not_before(7_500);
        assert_eq!(taken(&mut schedule, 8_500), [7_500, 8_500]);
    }
}
