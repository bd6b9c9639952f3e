//! What workers report of their progress, and the wait for it.

use std::time::{Duration, Instant};

use super::workers::Worker;
use super::{ANSWER_LIMIT, Crew, LOOK};

use crate::shm::{Marked, Report, order, state};
use ringfence_experiment::Error;

// A window is held open so long for a task that has reported nothing in it.
const STALL_LIMIT: Duration = Duration::from_secs(2);
// How long it is held open until it is looked at again.
const HOLD: Duration = Duration::from_millis(1);

// A service that answers nothing for this long, and for half of a window, has stopped.
const MUTE: Duration = Duration::from_millis(30);

/// What a worker had done at an end of a window.
pub struct Point {
    /// The number of its last report.
    pub number: u64,
    /// The report.
    pub report: Report,
    /// The latencies of all units until then, where it counts them.
    pub latencies: Option<Box<[u64]>>,
    /// The time that they took, ns, or that a run says that it took.
    pub sum_ns: u64,
}

impl Crew<'_> {
    /// The present report of each worker; those that report on demand are asked first, and so are
    /// those that count latencies, since these must be those of the report's units.
    pub fn reports(&mut self, workers: &[usize]) -> Result<Vec<Point>, Error> {
        let asked = self.ask(workers);
        self.answers(workers, asked)
    }

    /// Asks those that have to be; the numbers of the questions.
    pub fn ask(&self, workers: &[usize]) -> Vec<Option<u32>> {
        let is_asked =
            |worker: usize| self.workers[worker].on_demand || self.counts_latencies(worker);
        workers.iter().map(|&worker| is_asked(worker).then(|| self.slot(worker).ask())).collect()
    }

    /// The reports of workers that have been asked, once they have answered.
    pub fn answers(
        &mut self,
        workers: &[usize],
        asked: Vec<Option<u32>>,
    ) -> Result<Vec<Point>, Error> {
        for (&worker, number) in workers.iter().zip(asked) {
            self.wait(worker, ANSWER_LIMIT, "does not report", |slot| {
                slot.state() != state::FAILED
                    && number.is_none_or(|number| slot.wait_answer(number, LOOK))
            })?;
        }
        let point = |&worker: &usize| {
            let (number, report) = self.slot(worker).latest();
            if !self.counts_latencies(worker) {
                return Point { number, report, latencies: None, sum_ns: 0 };
            }
            let Marked { report, latencies, sum_ns } = self.slot(worker).marked();
            Point { number, report, latencies: Some(latencies), sum_ns }
        };
        Ok(workers.iter().map(point).collect())
    }

    /// Waits until something is over or the service that a probe asks stops answering; whether it
    /// kept answering.
    pub fn while_it_answers(
        &self,
        probe: usize,
        window: Duration,
        mut is_over: impl FnMut() -> bool,
    ) -> bool {
        let (mut units, mut last) = (self.slot(probe).latest().1.units, Instant::now());
        while !is_over() {
            let now = self.slot(probe).latest().1.units;
            if now != units {
                (units, last) = (now, Instant::now());
            }
            if last.elapsed() > (window / 2).max(MUTE) {
                return false;
            }
        }
        true
    }

    /// Whether all that were asked have answered, each within a limit.
    pub fn have_answered(&self, workers: &[usize], asked: &[Option<u32>], limit: Duration) -> bool {
        let mut all = workers.iter().zip(asked);
        all.all(|(&worker, number)| {
            number.is_none_or(|number| self.slot(worker).wait_answer(number, limit))
        })
    }

    /// Waits until all tasks have reported something since a window began, no longer than 2 s after
    /// it was due to end. Returns for how long the window was held open.
    pub fn hold_open(
        &mut self,
        running: &[usize],
        begun: &[Point],
        ended: &mut Vec<Point>,
        due: Instant,
        length: Duration,
    ) -> Result<Duration, Error> {
        let mut held = Duration::ZERO;
        while begun.iter().zip(&*ended).any(|(begun, ended)| begun.number == ended.number)
            && due.elapsed() < STALL_LIMIT
        {
            let looked = Instant::now();
            std::thread::sleep(HOLD);
            self.all_live(running)?;
            *ended = self.reports(running)?;
            // A look that takes longer than a window was not held, but kept from running.
            held += looked.elapsed().min(length.max(HOLD));
        }
        Ok(held)
    }

    // Whether the task that a worker is ordered to run counts latencies.
    fn counts_latencies(&self, worker: usize) -> bool {
        let Worker { role, ordered, .. } = self.workers[worker];
        let variant = ordered
            .checked_sub(order::RUN)
            .map(|variant| &self.plan.variants[role][variant as usize]);
        variant.is_some_and(|variant| variant.task.counts_latencies())
    }

    /// The last reports of workers that are held. They are not asked, since they do not answer.
    pub fn last_reports(&self, workers: &[usize]) -> Vec<Point> {
        let last = |&worker: &usize| {
            let (number, report) = self.slot(worker).latest();
            Point { number, report, latencies: None, sum_ns: 0 }
        };
        workers.iter().map(last).collect()
    }

    /// What a run from start to end reports: its start and its end.
    pub fn run_reports(&self, worker: usize) -> (Point, Point) {
        let slot = self.slot(worker);
        // A run's report carries its start besides its end.
        let (number, report) = slot.latest();
        let started = Report { ticks: report.untimed, ..Report::default() };
        let sum_ns = if self.workers[worker].tells_time { slot.marked().sum_ns } else { 0 };
        let point = |number, report, sum_ns| Point { number, report, latencies: None, sum_ns };
        (point(0, started, 0), point(number, Report { untimed: 0, ..report }, sum_ns))
    }
}
