//! What workers did between two ends of a window.

use std::time::Duration;

use ringfence_experiment::histogram::Histogram;

use super::Readings;
use super::counters::Counts;
use crate::Measured;
use crate::host::crew::{Crew, Point, Worker};

// A task that reports nothing for so many times as long as usual, and for at least so long, does
// not run.
const SILENT: u64 = 10;
const SILENCE: Duration = Duration::from_millis(2);

/// What some workers had done at one end of a window.
pub struct Edge {
    /// Of each, its report.
    pub points: Vec<Point>,
    /// The end, on the clock.
    pub at: u64,
    /// Of each, its hardware counters.
    pub counts: Vec<Option<Counts>>,
}

impl Readings {
    /// What workers did from one end of a window to the other.
    pub fn measured(
        &self,
        crew: &Crew,
        workers: &[usize],
        begun: &Edge,
        ended: &Edge,
    ) -> Vec<Measured> {
        let span = Some((begun.at, ended.at));
        let tasks = workers.iter().zip(begun.points.iter().zip(&ended.points));
        let counts = begun.counts.iter().zip(&ended.counts);
        let measured = tasks.zip(counts).map(|((&worker, (begun, ended)), counts)| {
            let counts = counts.0.zip(*counts.1).map(|(before, after)| after.since(before));
            let counts = counts.unwrap_or_default();
            Measured {
                cycles: counts.cycles,
                instructions: counts.instructions,
                llc_misses: counts.llc_misses,
                ..self.measured_between(&crew.workers[worker], begun, ended, span)
            }
        });
        measured.collect()
    }

    /// What runs did that are timed from start to end.
    pub fn measured_runs(&self, crew: &Crew, runs: &[usize]) -> Vec<Measured> {
        let measured = runs.iter().map(|&run| {
            let (started, finished) = crew.run_reports(run);
            self.measured_between(&crew.workers[run], &started, &finished, None)
        });
        measured.collect()
    }

    fn measured_between(
        &self,
        worker: &Worker,
        begun: &Point,
        ended: &Point,
        span: Option<(u64, u64)>,
    ) -> Measured {
        let ns = |ticks: u64| self.clock.ns(ticks).round() as u64;
        let reports = [begun, ended].map(|point| (point.number, point.report.ticks));
        let least = (SILENCE.as_nanos() as f64 / self.clock.ns_per_tick()) as u64;
        let (from, to) = extent(reports, span, least);
        let counted = begun.latencies.as_ref().zip(ended.latencies.as_ref());
        let latencies = counted.map(|(begun, ended)| {
            Histogram::of_buckets(begun.iter().zip(ended).map(|(begun, ended)| ended - begun))
        });
        let told_ns = ended.sum_ns.saturating_sub(begun.sum_ns);
        let (begun, ended) = (begun.report, ended.report);
        let length = to.saturating_sub(from);
        Measured {
            role: worker.role,
            instance: worker.instance,
            cpu: worker.cpu,
            start_ns: ns(from.saturating_sub(self.origin)),
            length_ns: ns(length),
            busy_ns: match worker.tells_time {
                true => told_ns,
                false => ns(length.saturating_sub(ended.untimed - begun.untimed)),
            },
            units: ended.units - begun.units,
            latencies: latencies.filter(|latencies| latencies.total() > 0),
            ..Measured::default()
        }
    }
}

// From when to when a task's window is, on the clock. It goes from report to report, so that no
// work lies half in it. A task that was silent at an end for many times as long as it is between
// two reports was kept from running, though: that it did nothing then counts, or one that runs but
// for the first moments would seem to be as fast as in these. Without a span the reports are its
// ends: a run says itself when it began and ended.
fn extent([begun, ended]: [(u64, u64); 2], span: Option<(u64, u64)>, least: u64) -> (u64, u64) {
    let Some(span) = span else { return (begun.1, ended.1) };
    if begun.0 == ended.0 {
        return span;
    }
    let usual = ended.1.saturating_sub(begun.1) / (ended.0 - begun.0);
    let at = |(_, ticks): (u64, u64), end: u64| {
        let silent = end.saturating_sub(ticks) > (usual * SILENT).max(least);
        if silent { end } else { ticks }
    };
    (at(begun, span.0), at(ended, span.1))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::host::crew::tests::{Stage, plan};
    use crate::shm::Report;

    fn edge(points: &[(u64, u64, u64)], at: u64, cycles: Option<u64>) -> Edge {
        let counts = cycles.map(|cycles| Counts { cycles: Some(cycles), ..Counts::default() });
        let point = |&(number, units, ticks): &(u64, u64, u64)| {
            let report = Report { units, ticks, untimed: ticks / 10 };
            Point { number, report, latencies: None, sum_ns: 0 }
        };
        Edge { points: points.iter().map(point).collect(), at, counts: vec![counts; points.len()] }
    }

    #[test]
    fn what_each_worker_did_lies_between_its_reports() {
        let (plan, stop) = (plan(""), AtomicBool::new(false));
        let stage = Stage::new(&plan, &stop);
        let readings = Readings::new(&plan, &stage);
        let (ms, begun_at) = ((1e6 / readings.clock.ns_per_tick()) as u64, readings.origin);
        let at = |ticks: u64| begun_at + ticks;
        let begun = edge(&[(1, 100, at(0)), (1, 0, at(0))], at(0), Some(50));
        let ended = edge(&[(101, 300, at(10 * ms)), (2, 7, at(10 * ms))], at(10 * ms), Some(80));
        let all = readings.measured(&stage, &[0, 1], &begun, &ended);
        let is = |found: u64, ns: u64| found.abs_diff(ns) < 1000;
        assert_eq!((all[0].role, all[0].units, all[1].role, all[1].units), (0, 200, 1, 7));
        assert!(is(all[0].length_ns, 10_000_000) && is(all[0].busy_ns, 9_000_000), "{:?}", all[0]);
        assert_eq!((all[0].start_ns, all[0].cycles, all[0].instructions), (0, Some(30), None));
        // A tail has no counters of its own.
        let tail = Edge { counts: vec![None; 2], ..begun };
        let all = readings.measured(&stage, &[0, 1], &tail, &ended);
        assert_eq!((all[0].cycles, all[0].units), (None, 200));
    }

    #[test]
    fn what_is_used_is_added_up_by_role_and_the_metrics_is_not() {
        let (plan, stop) = (plan(""), AtomicBool::new(false));
        let mut stage = Stage::new(&plan, &stop);
        let mut readings = Readings::new(&plan, &stage);
        for worker in &mut stage.workers {
            worker.pid = Some(std::process::id() as i32);
        }
        let before = readings.uses(&stage, &[0, 1]);
        stage.slot(1).note_restart();
        std::thread::sleep(Duration::from_millis(5));
        readings.add_uses(&stage, &[0, 1], &before);
        readings.add_uses(&stage, &[0, 1], &before);
        let (own, other) = (readings.used(0), readings.used(1));
        assert_eq!((own.cpu_ns, own.restarts, other.restarts), (0, 0, 2));
        assert!(other.windows_ns >= 10_000_000, "{other:?}");
    }

    #[test]
    fn a_window_goes_from_report_to_report() {
        // A report each 20, and at both ends one was a moment ago.
        assert_eq!(extent([(10, 995), (60, 1990)], Some((1000, 2000)), 100), (995, 1990));
        // Rare ones are not silence.
        assert_eq!(extent([(10, 700), (12, 1600)], Some((1000, 2000)), 100), (700, 1600));
        // Nothing in all that time.
        assert_eq!(extent([(10, 700), (10, 700)], Some((1000, 2000)), 100), (1000, 2000));
    }

    #[test]
    fn a_run_is_timed_by_its_own_ends() {
        // Looked after late, and the worker has reported often before.
        assert_eq!(extent([(0, 1010), (500, 1500)], None, 100), (1010, 1500));
    }

    #[test]
    fn whoever_is_kept_from_running_is_as_slow_as_that() {
        // It ran at the beginning alone, or at the end.
        assert_eq!(extent([(10, 995), (15, 1030)], Some((1000, 2000)), 100), (995, 2000));
        assert_eq!(extent([(10, 400), (40, 1990)], Some((1000, 2000)), 100), (1000, 1990));
        // In the middle.
        assert_eq!(extent([(10, 300), (60, 1500)], Some((1000, 2000)), 100), (1000, 2000));
        // A short gap is one between two turns on a shared CPU.
        assert_eq!(extent([(10, 950), (40, 1920)], Some((1000, 2000)), 400), (950, 1920));
    }
}
