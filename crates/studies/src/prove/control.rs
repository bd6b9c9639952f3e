//! The control of a victim: stopped half of the time, its work must take about twice as long.
//!
//! A program that ends after a fixed time, or makes up for what it has missed, takes as long
//! whatever is done to it: no slowdown of it can be seen, and "none was seen" would prove nothing.
//! Timing alone cannot tell; stopping it can (`SIGSTOP` and `SIGCONT` over all its processes, which
//! needs no root).

use std::time::Duration;

use ringfence_engine::{Engine, Measured};
use ringfence_experiment::plan::{self, Active, Plan};
use ringfence_experiment::task::Task;
use ringfence_experiment::{Error, ErrorKind};
use serde::{Deserialize, Serialize};

use super::VICTIM;

/// Stopped half of the time a unit of work takes 2 times as long; below this it does not depend on
/// being let work.
pub const LEAST_RATIO: f64 = 1.3;
/// A victim that has shown nothing for so long alone, shows nothing.
pub const PATIENCE: Duration = Duration::from_secs(2);
// Short runs are repeated until they add up to this.
const ENOUGH_NS: f64 = 300e6;
const MOST_WINDOWS: usize = 8;
// So long is a victim watched, on each side, before it is refused or accepted for a ratio below
// this.
const ENOUGH_TO_REFUSE_NS: f64 = 1.5e9;
const CLEAR_RATIO: f64 = 1.6;
// Fewer units than this on a side cannot tell 1 from 2.
const LEAST_UNITS: f64 = 8.0;
// A run shorter than this ends within the first turns.
const SHORTEST_RUN_NS: f64 = 20e6;

/// What the victim did alone, running and stopped half of the time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Control {
    /// What its work is counted in.
    pub unit: String,
    /// Whether a window is a run from start to end.
    pub whole_runs: bool,
    /// The CPUs on which it ran.
    pub cpus: Vec<u32>,
    /// Let run: units of work, and ns.
    pub running: (f64, f64),
    /// Stopped half of the time: the same.
    pub stopped: (f64, f64),
    /// Where a figure that a run prints stands for it: how many runs there were of each, and what
    /// they took, ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs: Option<[(f64, f64); 2]>,
    /// The median ratio of the pairs of windows: one disturbed window does not change it, as it
    /// changes the sums. `None` where a window is too short for a ratio of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub median: Option<f64>,
}

impl Control {
    /// How many times as long a unit took stopped half of the time; `None` where too little was
    /// seen to tell.
    pub fn ratio(&self) -> Option<f64> {
        let (running, stopped) = (self.running, self.stopped);
        let enough = match self.whole_runs {
            true => self.run_ns().is_some_and(|ns| ns >= SHORTEST_RUN_NS) && stopped.0 > 0.0,
            false => running.0 >= LEAST_UNITS,
        };
        enough.then(|| self.median.unwrap_or_else(|| times_as_long(running, stopped)))
    }

    /// Whether the victim's figure depends on its being let work.
    pub fn depends(&self) -> Option<bool> {
        self.ratio().map(|ratio| ratio >= LEAST_RATIO)
    }

    /// What one run took, ns, where runs are timed whole.
    pub fn run_ns(&self) -> Option<f64> {
        let [(runs, ns), _] = self.windows();
        (self.whole_runs && runs > 0.0).then(|| ns / runs)
    }

    // Runs or units, and the time in which they were done.
    fn windows(&self) -> [(f64, f64); 2] {
        self.runs.unwrap_or([self.running, self.stopped])
    }
}

// How many times as long a unit took. No unit at all while stopped: as slow as the window tells.
fn times_as_long(running: (f64, f64), stopped: (f64, f64)) -> f64 {
    (stopped.1 / stopped.0.max(0.5)) / (running.1 / running.0)
}

/// Lets the victim of a plan run alone, and stops it half of the time.
///
/// # Errors
/// Where it cannot be run, shows no progress, or a run does not end in time.
pub fn measure(
    plan: &Plan,
    engine: &mut dyn Engine,
    time: Option<Duration>,
) -> Result<Control, Error> {
    let case = plan.measured().first().copied().unwrap_or(0);
    let (task, active) = (plan.metric_task(case), plan.cases[case].active.clone());
    let whole_runs = plan::is_whole_run(task);
    let begun = engine.elapsed();
    engine.give_up_at(time.map(|time| begun + time));
    engine.begin_trial(0)?;
    let mut control = Control {
        unit: task.unit().into(),
        whole_runs,
        cpus: (0..plan.placed.cpus[plan.metric].len() as u32)
            .flat_map(|instance| plan.home(plan.metric, instance).iter().collect::<Vec<_>>())
            .collect(),
        running: (0.0, 0.0),
        stopped: (0.0, 0.0),
        runs: task.figure().map(|_| [(0.0, 0.0); 2]),
        median: None,
    };
    let mut ratios = Vec::new();
    for _ in 0..MOST_WINDOWS {
        let before = (control.running, control.stopped);
        match pair(engine, &active, plan, &mut control) {
            // What was seen before tells enough.
            Err(error) if error.kind() == ErrorKind::OutOfTime && control.stopped.1 > 0.0 => break,
            other => other?,
        }
        let running = less(control.running, before.0);
        if running.0 >= if whole_runs { 1.0 } else { LEAST_UNITS } {
            ratios.push(times_as_long(running, less(control.stopped, before.1)));
        }
        control.median = median(&mut ratios);
        let [running, stopped] = control.windows();
        let both = running.1.min(stopped.1);
        let enough = both >= ENOUGH_NS && (whole_runs || control.running.0 >= 4.0 * LEAST_UNITS);
        // On a busy machine other programs delay the victim too, so only a clear answer is given
        // early.
        let clear = control.ratio().is_none_or(|ratio| ratio >= CLEAR_RATIO);
        if enough && (clear || both >= ENOUGH_TO_REFUSE_NS) {
            break;
        }
    }
    engine.give_up_at(None);
    Ok(control)
}

// A window in which it runs, and one in which it is stopped half of the time.
fn pair(
    engine: &mut dyn Engine,
    active: &[Active],
    plan: &Plan,
    control: &mut Control,
) -> Result<(), Error> {
    let (running, took) = window(engine, active, plan, false)?;
    add(&mut control.running, running);
    while control.running.0 == 0.0 && control.running.1 < PATIENCE.as_nanos() as f64 {
        add(&mut control.running, window(engine, active, plan, false)?.0);
    }
    if control.running.0 == 0.0 {
        return Err(Error::usage(no_progress(plan, control)));
    }
    match window(engine, active, plan, true) {
        Ok((stopped, stopped_took)) => {
            add(&mut control.stopped, stopped);
            for (run, ns) in control.runs.iter_mut().flatten().zip([took, stopped_took]) {
                add(run, (1.0, ns));
            }
        }
        // A run without its counterpart tells nothing.
        Err(error) => {
            control.running = less(control.running, running);
            return Err(error);
        }
    }
    Ok(())
}

fn window(
    engine: &mut dyn Engine,
    active: &[Active],
    plan: &Plan,
    stop: bool,
) -> Result<((f64, f64), f64), Error> {
    engine.stop_half_of_the_time(stop);
    let measured = engine.window(active);
    engine.stop_half_of_the_time(false);
    let of_victim = measured?.into_iter().filter(|task| task.role == plan.metric);
    let (mut work, mut took) = ((0.0, 0.0), 0.0);
    for Measured { units, busy_ns, length_ns, .. } in of_victim {
        // Where its time is that of its units, none of them take none.
        let ns = if units == 0 { length_ns } else { busy_ns };
        add(&mut work, (units as f64, ns as f64));
        took += length_ns as f64;
    }
    Ok((work, took))
}

fn add(sum: &mut (f64, f64), window: (f64, f64)) {
    sum.0 += window.0;
    sum.1 += window.1;
}

fn median(ratios: &mut [f64]) -> Option<f64> {
    ratios.sort_by(f64::total_cmp);
    let upper = ratios.get(ratios.len() / 2)?;
    Some((ratios[(ratios.len() - 1) / 2] + upper) / 2.0)
}

fn less(sum: (f64, f64), part: (f64, f64)) -> (f64, f64) {
    (sum.0 - part.0, sum.1 - part.1)
}

fn no_progress(plan: &Plan, control: &Control) -> String {
    let case = plan.measured().first().copied().unwrap_or(0);
    let shown = match plan.metric_task(case) {
        Task::Command(command) => command.run.clone(),
        other => other.name().to_owned(),
    };
    let seconds = control.running.1 / 1e9;
    format!(
        "the victim '{shown}' showed no progress in {seconds:.1} s alone ({}): let it report its \
         work (lines, latencies or a counter), \
         or time its runs from start to end (--victim run:COMMAND)",
        control.unit
    )
}

/// That a victim counts no work at all, where that is known before anything runs.
pub fn does_nothing(task: &Task) -> Option<String> {
    matches!(task, Task::Idle(_)).then(|| {
        format!(
            "--{VICTIM}: 'idle' does no work, so nothing can slow it down; name a task whose work \
             is counted"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prove::experiments;

    use ringfence_experiment::task::{Tasks, text};
    use ringfence_machine::cpulist::CpuId;
    use ringfence_machine::fixtures;
    use ringfence_machine::topology::Topology;

    /// A victim that does this number of units in a window of 100 ms, running or stopped half of
    /// the time; a run takes so many ms.
    struct Simulated {
        units: [u64; 2],
        ms: [u64; 2],
        /// What its units say that they took, where that is its time.
        told: Option<[u64; 2]>,
        /// Another program delays the first run that is stopped, so many ms.
        delay: u64,
        stopped: bool,
        now: Duration,
        limit: Option<Duration>,
    }

    impl Engine for Simulated {
        // No arm of these experiments asks for anything to be set apart.
        fn arrange(&mut self, _: usize) -> Result<(), Error> {
            Ok(())
        }
        fn end(self: Box<Self>) -> Result<Vec<String>, Error> {
            Ok(Vec::new())
        }
        fn elapsed(&self) -> Duration {
            self.now
        }
        fn give_up_at(&mut self, at: Option<Duration>) {
            self.limit = at;
        }
        fn stop_half_of_the_time(&mut self, stop: bool) {
            self.stopped = stop;
        }
        fn begin_trial(&mut self, _: u32) -> Result<(), Error> {
            Ok(())
        }
        fn probe(&mut self, _: &[CpuId]) -> Result<Option<f64>, Error> {
            Ok(None)
        }
        fn window(&mut self, _: &[Active]) -> Result<Vec<Measured>, Error> {
            let side = usize::from(self.stopped);
            let delay = if self.stopped { std::mem::take(&mut self.delay) } else { 0 };
            let length = Duration::from_millis(self.ms[side] + delay);
            if self.limit.is_some_and(|limit| self.now + length > limit) {
                return Err(Error::out_of_time());
            }
            self.now += length;
            let ns = length.as_nanos() as u64;
            let units = self.units[side];
            Ok(vec![Measured {
                units,
                length_ns: ns,
                busy_ns: self.told.map_or(ns, |told| told[side]),
                ..Measured::default()
            }])
        }
    }

    fn controlled(unit: &str, units: [u64; 2], ms: [u64; 2]) -> (Result<Control, Error>, Duration) {
        controlled_by(None, 0, unit, units, ms)
    }

    fn controlled_by(
        told: Option<[u64; 2]>,
        delay: u64,
        unit: &str,
        units: [u64; 2],
        ms: [u64; 2],
    ) -> (Result<Control, Error>, Duration) {
        let mut victim = Tasks::from(text::program("victim --fast"));
        victim.set("unit", &unit.into()).unwrap();
        if told.is_some() && unit == "whole-run" {
            let figure: toml::Table = "pattern = 'p99 (.*)'".parse().unwrap();
            victim.set("figure", &figure.into()).unwrap();
        }
        let topology = Topology::read(&fixtures::vm_2cpu().root()).unwrap();
        let question = experiments::tests::question(victim);
        let plan = Plan::new(&experiments::control(&question), &topology, None).unwrap();
        let mut engine =
            Simulated { units, ms, told, delay, stopped: false, now: Duration::ZERO, limit: None };
        let control = measure(&plan, &mut engine, Some(Duration::from_secs(10)));
        (control, engine.now)
    }

    #[test]
    fn work_that_halves_depends_and_a_clock_does_not() {
        let depends = |unit, units, ms| controlled(unit, units, ms).0.unwrap().depends();
        assert_eq!(depends("lines", [100, 50], [100, 100]), Some(true));
        assert_eq!(depends("lines", [100, 97], [100, 100]), Some(false), "it catches up");
        assert_eq!(depends("lines", [100, 0], [100, 100]), Some(true));
        assert_eq!(depends("whole-run", [1, 1], [500, 1000]), Some(true));
        assert_eq!(depends("whole-run", [1, 1], [1000, 1030]), Some(false), "it ends by the clock");
        assert_eq!(depends("whole-run", [1, 1], [5, 6]), None, "too short to be stopped in turns");
        assert_eq!(depends("lines", [1, 0], [2000, 2000]), None, "too few lines to tell");
    }

    #[test]
    fn long_runs_are_controlled_once_and_short_ones_several_times() {
        assert_eq!(controlled("whole-run", [1, 1], [1000, 2000]).1, Duration::from_secs(3));
        assert_eq!(controlled("whole-run", [1, 1], [60, 120]).1, Duration::from_millis(5 * 180));
    }

    // Three runs of 100 ms are enough for a clear answer; one that was delayed gives none.
    #[test]
    fn one_delayed_run_does_not_make_a_victim_depend() {
        let control = |ms| controlled_by(None, 400, "whole-run", [1, 1], ms).0.unwrap();
        let sleeps = control([100, 100]);
        assert_eq!(sleeps.ratio(), Some(1.0), "{sleeps:?}");
        assert_eq!((sleeps.running, sleeps.stopped), ((8.0, 8e8), (8.0, 12e8)));
        assert_eq!(control([100, 200]).ratio(), Some(2.0));
    }

    // It ends by the clock, and its figure of 0.2 ms shows all the same that it was stopped.
    #[test]
    fn a_figure_of_a_run_is_what_depends_and_its_length_what_is_looked_at() {
        let (control, took) =
            controlled_by(Some([200_000, 450_000]), 0, "whole-run", [1, 1], [1000, 1000]);
        let control = control.unwrap();
        assert_eq!(
            (control.ratio(), control.run_ns(), took),
            (Some(2.25), Some(1e9), Duration::from_secs(2))
        );
        let rate = controlled_by(Some([1_000_000; 2]), 0, "whole-run", [900, 450], [1000, 1000])
            .0
            .unwrap();
        assert_eq!((rate.ratio(), rate.run_ns()), (Some(2.0), Some(1e9)));
        let same = controlled_by(Some([200_000, 210_000]), 0, "whole-run", [1, 1], [1000, 2000])
            .0
            .unwrap();
        assert_eq!(
            same.depends(),
            Some(false),
            "it runs longer, and its figure says nothing of that"
        );
    }

    #[test]
    fn latencies_that_grow_depend_and_none_is_no_progress() {
        let (control, _) =
            controlled_by(Some([20_000_000, 45_000_000]), 0, "latencies", [100, 50], [100, 100]);
        assert_eq!(control.unwrap().ratio(), Some(4.5));
        let (control, took) = controlled_by(Some([0, 0]), 0, "latencies", [0, 0], [100, 100]);
        assert!(control.as_ref().is_err_and(Error::is_usage), "{control:?}");
        assert_eq!(took, PATIENCE);
    }

    #[test]
    fn no_progress_is_said_within_seconds() {
        let (control, took) = controlled("lines", [0, 0], [100, 100]);
        let error = control.unwrap_err();
        assert!(error.is_usage(), "{error:?}");
        let why = error.text();
        assert!(
            why.contains("'victim --fast' showed no progress in 2.0 s alone (lines of output)"),
            "{why}"
        );
        assert_eq!(took, PATIENCE);
    }

    #[test]
    fn a_victim_is_looked_at_longer_before_it_is_refused() {
        assert_eq!(
            controlled("whole-run", [1, 1], [1000, 1030]).1,
            Duration::from_millis(2 * 2030)
        );
        // No third pair fits into the time, and two tell.
        let (control, _) = controlled("whole-run", [1, 1], [3000, 3010]);
        assert_eq!(control.unwrap().depends(), Some(false));
        assert_eq!(controlled("lines", [100, 97], [100, 100]).1, Duration::from_millis(8 * 200));
    }

    #[test]
    fn a_run_that_does_not_end_in_time_is_given_up() {
        let (control, took) = controlled("whole-run", [1, 1], [100_000, 200_000]);
        assert_eq!((control, took), (Err(Error::out_of_time()), Duration::ZERO));
    }
}
