//! How windows are measured: settling, reports at both ends, and runs from start to end.

use std::time::{Duration, Instant};

use ringfence_experiment::histogram::Histogram;
use ringfence_experiment::plan::Active;
use ringfence_machine::root::FsRoot;
use ringfence_system::attach::Usage;

use super::super::{EngineError, Measured};
use super::HostEngine;
use super::crew::Point;
use super::guests::{self, Guest, NotPaused};
use super::slices::Slices;
use crate::process;
use crate::usage::Used;

// How often a run is looked after; its end is timed by the worker.
const POLL: Duration = Duration::from_millis(2);

// A task that reports nothing for so many times as long as usual, and for at least so long, does
// not run.
const SILENT: u64 = 10;

// A service that stopped answering in so many windows in a row, while another process was paused,
// depends on it.
const SILENT_WINDOWS: u32 = 3;
// The same for a service that was also silent while no process was paused.
const SILENT_ALONE: u32 = 10;
const SILENCE: Duration = Duration::from_millis(2);

// How often it is looked whether the run is to stop.
const LOOK: Duration = Duration::from_millis(100);
// How often one that does not stand in time is tried again for a window.
const PAUSE_TRIES: u32 = 20;

impl HostEngine<'_> {
    /// A window of the experiment's length.
    pub(super) fn timed_window(&mut self, active: &[Active]) -> Result<Vec<Measured>, EngineError> {
        let mut guests = std::mem::take(&mut self.guests);
        let slices = Slices::begin(&mut guests, active, &self.plan.experiment, self.arm);
        let measured = self.window_beside(&mut guests, active, &slices);
        // Why one could not be paused says more than what comes of it.
        let measured = slices.end(&mut guests).and(measured);
        self.guests = guests;
        measured
    }

    fn window_beside(
        &mut self,
        guests: &mut [Guest],
        active: &[Active],
        slices: &Slices,
    ) -> Result<Vec<Measured>, EngineError> {
        let length = self.plan.experiment.measure.window.0;
        let guests_are_there = !guests.is_empty();
        let running = self.crew.settle(active, &mut self.drifting)?;
        let mut tries = 0;
        let (mut paused, used_by_guests) = loop {
            self.wait_for_guests(guests, active, length, slices)?;
            let used = guests::uses(guests, active);
            match guests::pause_others(guests, active, length) {
                Ok(paused) => break (paused, used),
                Err(NotPaused::Moved(_)) if tries < PAUSE_TRIES => tries += 1,
                Err(NotPaused::Moved(why) | NotPaused::Failed(why)) => return Err(why),
            }
        };
        let (used, since) = (self.uses(&running), Instant::now());
        let halved = self.crew.begin_halving();
        // Before the window begins, and after it has ended.
        let look = self.look();
        let counts_before = self.counts(&running);
        let (opening, sliced) = (Instant::now(), slices.frozen());
        let asked = self.crew.ask(&running);
        // A service that waits for a paused process never reaches the start of the window.
        let (probe, is_paused) =
            (self.crew.probe(&running).filter(|_| guests_are_there), paused.any());
        let mut answers = probe.is_none_or(|probe| {
            self.crew
                .while_it_answers(probe, length, || self.crew.have_answered(&running, &asked, POLL))
        });
        let mut stood = true;
        if is_paused && !answers {
            stood = paused.end()?;
        }
        let begun = self.crew.answers(&running, asked)?;
        let begun_at = self.clock.now();
        // For tasks that wait for answers, the window began when they were asked.
        let begun_before =
            if self.crew.probe(&running).is_some() { opening.elapsed() } else { Duration::ZERO };
        if answers || !is_paused {
            answers &= self.let_pass(length.saturating_sub(begun_before), length, probe, is_paused);
        }
        let due = Instant::now();
        let asked = self.crew.ask(&running);
        stood &= paused.end()? && slices.held(&sliced, opening.elapsed());
        drop(paused);
        let mut ended = self.crew.answers(&running, asked)?;
        self.note_silence(is_paused, answers)?;
        let held = self.crew.hold_open(&running, &begun, &mut ended, due, length)?;
        let ended_at = self.clock.now();
        let late = opening.elapsed().saturating_sub(length + held);
        let counts_after = self.counts(&running);
        let looks = look.zip(self.look());
        drop(halved);
        self.crew.all_live(&running)?;
        self.add_uses(&running, &used, since.elapsed());
        let counts = counted_since(counts_before, counts_after);
        let mut all = self.measured(&running, &begun, &ended, Some((begun_at, ended_at)), counts);
        all.extend(self.measured_guests(guests, &used_by_guests, begun_at, since));
        let late = match stood && (answers || !is_paused) {
            // A process was resumed too early: this is not the window that was asked for.
            false => length * 100,
            // It holds what was due in it, however long that was. To leave out those that were long
            // would leave out stalls.
            true if self.crew.probe(&running).is_some() => Duration::ZERO,
            true => late,
        };
        all.iter_mut().for_each(|task| task.late_ns = Some(late.as_nanos() as u64));
        self.note_stretch(&mut all, looks);
        Ok(all)
    }

    // What those that ran already did in a window, which is also added to what they have used.
    fn measured_guests(
        &mut self,
        guests: &mut [Guest],
        used_before: &[(usize, Usage)],
        begun_at: u64,
        since: Instant,
    ) -> Vec<Measured> {
        let used = guests::uses_of(guests, used_before);
        let start_ns = self.clock.ns(begun_at.saturating_sub(self.origin)) as u64;
        let all = guests::measured(guests, used_before, &used, start_ns, since.elapsed());
        let add = |(measured, used): (Measured, _)| {
            self.used[measured.role] = self.used[measured.role].and(used);
            measured
        };
        all.into_iter().map(add).collect()
    }

    // Waits until a window of this length may open for the attached processes.
    fn wait_for_guests(
        &mut self,
        guests: &[Guest],
        active: &[Active],
        length: Duration,
        slices: &Slices,
    ) -> Result<(), EngineError> {
        loop {
            let wait = guests::wait(guests, active, length)?.max(slices.wait());
            if wait.is_zero() {
                return Ok(());
            }
            self.crew.may_go_on()?;
            std::thread::sleep(wait.min(LOOK));
        }
    }

    // Waits. While a process is paused, stops waiting when the probe's service stops answering.
    // Returns whether the service kept answering.
    fn let_pass(
        &self,
        length: Duration,
        window: Duration,
        probe: Option<usize>,
        paused: bool,
    ) -> bool {
        let begun = Instant::now();
        let left = || length.saturating_sub(begun.elapsed());
        let answers = probe.is_none_or(|probe| {
            self.crew.while_it_answers(probe, window, || {
                std::thread::sleep(left().min(POLL));
                left().is_zero()
            })
        });
        if answers || !paused {
            std::thread::sleep(left());
        }
        answers
    }

    // A service that stops answering whenever a process is paused depends on it. A service that is
    // overloaded stops at other times, too.
    fn note_silence(&mut self, is_paused: bool, answers: bool) -> Result<(), EngineError> {
        match (is_paused, answers) {
            (false, true) => {}
            (false, false) => (self.silent, self.silent_alone) = (0, true),
            (true, true) => self.silent = 0,
            (true, false) => self.silent += 1,
        }
        if self.silent < if self.silent_alone { SILENT_ALONE } else { SILENT_WINDOWS } {
            return Ok(());
        }
        Err(EngineError::Failed(format!(
            "the victim stopped answering {} times in a row while the aggressor was paused (each \
             pause was ended at once): it depends on the aggressor, and cannot be measured without \
             it; choose another aggressor",
            self.silent
        )))
    }

    /// A window from the start to the end of a run of the metric's role; all other roles are
    /// already running when it starts.
    pub(super) fn whole_run(&mut self, active: &[Active]) -> Result<Vec<Measured>, EngineError> {
        let metric = self.plan.metric;
        let others: Vec<Active> =
            active.iter().copied().filter(|active| active.role != metric).collect();
        let beside = self.crew.settle(&others, &mut self.drifting)?;
        let (used, since) = (self.uses(&beside), Instant::now());
        let counts_before = self.counts(&beside);
        let begun = self.crew.reports(&beside)?;
        let begun_at = self.clock.now();
        let look = self.look();
        self.crew.switch(active)?;
        let halved = self.crew.begin_halving();
        let runs: Vec<usize> = self
            .crew
            .running()
            .into_iter()
            .filter(|&worker| self.crew.workers[worker].role == metric)
            .collect();
        for &worker in &runs {
            while self.crew.slot(worker).latest().1.units == 0 {
                self.may_go_on()?;
                std::thread::sleep(POLL);
                self.crew.none_failed(&[worker])?;
                self.crew.all_live(&beside)?;
                self.crew.all_live(&runs)?;
            }
        }
        let ended = self.crew.reports(&beside)?;
        let ended_at = self.clock.now();
        let counts = counted_since(counts_before, self.counts(&beside));
        let looks = look.zip(self.look());
        drop(halved);
        self.crew.all_live(&beside)?;
        self.add_uses(&beside, &used, since.elapsed());
        let mut all = self.measured(&beside, &begun, &ended, Some((begun_at, ended_at)), counts);
        let (started, finished): (Vec<Point>, Vec<Point>) =
            runs.iter().map(|&run| self.crew.run_reports(run)).unzip();
        all.extend(self.measured(&runs, &started, &finished, None, vec![None; runs.len()]));
        self.note_stretch(&mut all, looks);
        Ok(all)
    }

    pub(super) fn measured(
        &self,
        workers: &[usize],
        begun: &[Point],
        ended: &[Point],
        span: Option<(u64, u64)>,
        counts: Vec<Option<Counts>>,
    ) -> Vec<Measured> {
        let ns = |ticks: u64| self.clock.ns(ticks).round() as u64;
        let tasks = workers.iter().zip(begun.iter().zip(ended)).zip(counts);
        let measured = tasks.map(|((&worker, (begun, ended)), counts)| {
            let worker = &self.crew.workers[worker];
            let reports = [begun, ended].map(|point| (point.number, point.report.ticks));
            let least = (SILENCE.as_nanos() as f64 / self.clock.ns_per_tick()) as u64;
            let (from, to) = extent(reports, span, least);
            let counted = begun.latencies.as_ref().zip(ended.latencies.as_ref());
            let latencies = counted.map(|(begun, ended)| {
                Histogram::of_buckets(begun.iter().zip(ended).map(|(begun, ended)| ended - begun))
            });
            let latencies = latencies.filter(|latencies| latencies.total() > 0);
            let told_ns = ended.sum_ns.saturating_sub(begun.sum_ns);
            let (begun, ended) = (begun.report, ended.report);
            let length = to.saturating_sub(from);
            let counts = counts.unwrap_or_default();
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
                cycles: counts.cycles,
                instructions: counts.instructions,
                llc_misses: counts.llc_misses,
                latencies,
                ..Measured::default()
            }
        });
        measured.collect()
    }

    pub(super) fn counts(&mut self, workers: &[usize]) -> Vec<Option<Counts>> {
        let read = |worker: &usize| {
            let counts = self.crew.workers[*worker].counters.as_mut()?.read().ok()?;
            Some(Counts {
                cycles: counts.cycles,
                instructions: counts.instructions,
                llc_misses: counts.llc_load_misses.or(counts.cache_misses),
            })
        };
        workers.iter().map(read).collect()
    }

    /// What the processes of each worker have used until now.
    pub(super) fn uses(&self, workers: &[usize]) -> Vec<Used> {
        let root = FsRoot::host();
        let of = |&worker: &usize| {
            let of = &self.crew.workers[worker];
            // A timed run is not an aggressor.
            let Some(pid) = of.pid.filter(|_| of.role != self.plan.metric) else {
                return Used::default();
            };
            let mut used = process::used(&root, pid, of.program);
            used.restarts = self.crew.restarts(worker);
            used
        };
        workers.iter().map(of).collect()
    }

    /// Adds what was used since `before` to what is known of the workers' roles.
    pub(super) fn add_uses(&mut self, workers: &[usize], before: &[Used], length: Duration) {
        let after = self.uses(workers);
        for ((&worker, before), after) in workers.iter().zip(before).zip(after) {
            let worker = &self.crew.workers[worker];
            let windows_ns = if worker.instance == 0 { length.as_nanos() as u64 } else { 0 };
            let now = Used { windows_ns, ..after.since(*before) };
            self.used[worker.role] = self.used[worker.role].and(now);
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

// Hardware counters of one window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    cycles: Option<u64>,
    instructions: Option<u64>,
    llc_misses: Option<u64>,
}

pub(super) fn counted_since(
    before: Vec<Option<Counts>>,
    after: Vec<Option<Counts>>,
) -> Vec<Option<Counts>> {
    let minus = |after: Option<u64>, before: Option<u64>| Some(after?.saturating_sub(before?));
    let of_one = |before: Counts, after: Counts| Counts {
        cycles: minus(after.cycles, before.cycles),
        instructions: minus(after.instructions, before.instructions),
        llc_misses: minus(after.llc_misses, before.llc_misses),
    };
    before.into_iter().zip(after).map(|(before, after)| Some(of_one(before?, after?))).collect()
}

#[cfg(test)]
mod tests {
    use super::extent;

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
