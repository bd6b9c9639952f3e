//! How a worker sleeps while its task is to run: until the task's next round, or its next turn.

use std::time::Duration;

use ringfence_experiment::units::Share;
use ringfence_machine::clock::Clock;

use super::latencies::Counted;
use super::tally::Tally;
use crate::shm::Slot;
use ringfence_limits::quota::PERIOD_US;

/// Sleeps until a time on the clock or another order, and answers questions meanwhile; no work.
pub fn rest(
    slot: &Slot,
    ordered: u32,
    until: u64,
    clock: &Clock,
    tally: &mut Tally,
    counted: &Counted,
) {
    loop {
        let seen = slot.bell();
        let now = clock.now();
        if now >= until || slot.order() != ordered {
            return;
        }
        // A question that came before the bell was looked at rings no more.
        tell(slot, now, tally, counted);
        let left = Duration::from_nanos(clock.ns(until - now) as u64);
        slot.wait_bell(seen, Some(left));
        tell(slot, clock.now(), tally, counted);
    }
}

// That no work was done since the last report.
fn tell(slot: &Slot, now: u64, tally: &mut Tally, counted: &Counted) {
    tally.report.untimed += now - tally.report.ticks;
    tally.publish_at(slot, now);
    counted.answer(slot, tally);
}

/// A quota of CPU time: work for a share of each period, rest for the other. Periods follow the
/// clock, not the order to run: windows would else always open at the same point of a period.
pub struct Turn {
    until: u64,
    run: u64,
    period: u64,
}

// So often a resting task reports, for windows that open or close meanwhile.
const REST_REPORT: Duration = Duration::from_millis(1);

impl Turn {
    /// The turn under way.
    pub fn new(quota: Share, clock: &Clock) -> Self {
        let period = (PERIOD_US as f64 * 1e3 / clock.ns_per_tick()) as u64;
        let (run, now) = ((period as f64 * quota.0) as u64, clock.now());
        Self { until: now - now % period + run, run, period }
    }

    /// Whether it has ended.
    pub fn is_over(&self, now: u64) -> bool {
        now >= self.until
    }

    /// Sleeps until the next turn or another order.
    pub fn rest(
        &mut self,
        slot: &Slot,
        ordered: u32,
        clock: &Clock,
        tally: &mut Tally,
        counted: &Counted,
    ) {
        let next = self.until - self.run + self.period;
        loop {
            let seen = slot.bell();
            let now = clock.now();
            if now >= next || slot.order() != ordered {
                break;
            }
            let left = Duration::from_nanos(clock.ns(next - now) as u64);
            slot.wait_bell(seen, Some(left.min(REST_REPORT)));
            tally.publish(slot, clock);
            counted.answer(slot, tally);
        }
        // A turn that a long piece of work has used up is left out.
        let now = clock.now().max(next);
        self.until = next + (now - next) / self.period * self.period + self.run;
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::shm::{Marked, Report, Shared, order};
    use super::super::steady;
    use super::*;
    use ringfence_workloads::{Latencies, Work, Workload};

    struct Rests(u64);
    impl Workload for Rests {
        fn work(&mut self, _: u64, latencies: &dyn Latencies) -> Work {
            (0..3).for_each(|_| latencies.count(0));
            self.0 += 1;
            Work { units: 3, untimed: 0 }
        }
        fn rest_until(&self) -> Option<u64> {
            // After the second time for longer than any caller waits.
            (self.0 == 2).then_some(u64::MAX)
        }
    }

    #[test]
    fn a_resting_task_answers_and_obeys() {
        let shared = Shared::create(1).unwrap();
        let slot = shared.slot(0);
        slot.give(order::RUN);
        let report = std::thread::scope(|scope| {
            let resting = scope.spawn(|| {
                let (mut tally, counted) = (Tally::default(), Counted::new(Clock::host()));
                let ended =
                    steady(slot, order::RUN, &mut Rests(0), None, &mut 1, &mut tally, &counted);
                ended.map(|()| tally.report)
            });
            let mut last = Report::default();
            // The first answers may come before the rest.
            while last.units < 6 {
                let number = slot.ask();
                assert!(slot.wait_answer(number, Duration::from_secs(60)));
                let Marked { report, latencies, .. } = slot.marked();
                assert_eq!(latencies.iter().sum::<u64>(), report.units, "those of its units");
                last = report;
            }
            let number = slot.ask();
            assert!(slot.wait_answer(number, Duration::from_secs(60)));
            let later = slot.marked().report;
            assert_eq!(later.units, 6);
            assert!(later.untimed > last.untimed, "a rest is not work: {later:?}");
            slot.give(order::PAUSE);
            resting.join().unwrap()
        });
        let report = report.unwrap();
        assert_eq!(report.units, 6);
        assert_eq!(slot.latest().1, report);
    }
}
