use super::*;
use crate::experiments;
use ringfence_engine::Measured;
use ringfence_experiment::sample::Sample;
use ringfence_experiment::task::text;
use ringfence_machine::cpulist::CpuId;
use ringfence_machine::fixtures;
use ringfence_machine::topology::Topology;

/// A victim that does so many units in a window of 100 ms, running or stopped half of the time; a run
/// takes so many ms.
struct Simulated {
    units: [u64; 2],
    ms: [u64; 2],
    /// What its units say that they took, where that is its time.
    told: Option<[u64; 2]>,
    stopped: bool,
    now: Duration,
    limit: Option<Duration>,
}

impl Engine for Simulated {
    // No arm of these experiments asks for anything to be set apart.
    fn arrange(&mut self, _: usize) -> Result<(), EngineError> {
        Ok(())
    }
    fn end(self: Box<Self>) -> Result<Vec<String>, EngineError> {
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
    fn begin_trial(&mut self, _: u32) -> Result<(), EngineError> {
        Ok(())
    }
    fn probe(&mut self, _: &[CpuId]) -> Result<Option<f64>, EngineError> {
        Ok(None)
    }
    fn window(&mut self, _: &[Active]) -> Result<Vec<Measured>, EngineError> {
        let side = usize::from(self.stopped);
        let length = Duration::from_millis(self.ms[side]);
        if self.limit.is_some_and(|limit| self.now + length > limit) {
            return Err(EngineError::OutOfTime);
        }
        self.now += length;
        let ns = length.as_nanos() as u64;
        let units = self.units[side];
        let sample = Sample {
            units,
            length_ns: ns,
            busy_ns: self.told.map_or(ns, |told| told[side]),
            ..Sample::default()
        };
        Ok(vec![Measured { role: 0, sample }])
    }
}

fn controlled(unit: &str, units: [u64; 2], ms: [u64; 2]) -> (Result<Control, EngineError>, Duration) {
    controlled_by(None, unit, units, ms)
}

fn controlled_by(
    told: Option<[u64; 2]>,
    unit: &str,
    units: [u64; 2],
    ms: [u64; 2],
) -> (Result<Control, EngineError>, Duration) {
    let mut victim = text::program("victim --fast");
    victim.insert("unit".into(), unit.into());
    if told.is_some() && unit == "whole-run" {
        let figure: toml::Table = "pattern = 'p99 (.*)'".parse().unwrap();
        victim.insert("figure".into(), figure.into());
    }
    let topology = Topology::read(&fixtures::vm_2cpu().root()).unwrap();
    let question = experiments::tests::question(victim);
    let plan = Plan::new(&experiments::control(&question), &topology, None).unwrap();
    let mut engine = Simulated { units, ms, told, stopped: false, now: Duration::ZERO, limit: None };
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

// It ends by the clock, and its figure of 0.2 ms shows all the same that it was stopped.
#[test]
fn a_figure_of_a_run_is_what_depends_and_its_length_what_is_looked_at() {
    let (control, took) = controlled_by(Some([200_000, 450_000]), "whole-run", [1, 1], [1000, 1000]);
    let control = control.unwrap();
    assert_eq!((control.ratio(), control.run_ns(), took), (Some(2.25), Some(1e9), Duration::from_secs(2)));
    let rate = controlled_by(Some([1_000_000; 2]), "whole-run", [900, 450], [1000, 1000]).0.unwrap();
    assert_eq!((rate.ratio(), rate.run_ns()), (Some(2.0), Some(1e9)));
    let same = controlled_by(Some([200_000, 210_000]), "whole-run", [1, 1], [1000, 2000]).0.unwrap();
    assert_eq!(same.depends(), Some(false), "it runs longer, and its figure says nothing of that");
}

#[test]
fn latencies_that_grow_depend_and_none_is_no_progress() {
    let (control, _) = controlled_by(Some([20_000_000, 45_000_000]), "latencies", [100, 50], [100, 100]);
    assert_eq!(control.unwrap().ratio(), Some(4.5));
    let (control, took) = controlled_by(Some([0, 0]), "latencies", [0, 0], [100, 100]);
    assert!(matches!(control, Err(EngineError::Usage(_))), "{control:?}");
    assert_eq!(took, PATIENCE);
}

#[test]
fn no_progress_is_said_within_seconds() {
    let (control, took) = controlled("lines", [0, 0], [100, 100]);
    let Err(EngineError::Usage(why)) = control else { panic!("{control:?}") };
    assert!(why.contains("'victim --fast' showed no progress in 2.0 s alone (lines of output)"), "{why}");
    assert_eq!(took, PATIENCE);
}

#[test]
fn a_victim_is_looked_at_longer_before_it_is_refused() {
    assert_eq!(controlled("whole-run", [1, 1], [1000, 1030]).1, Duration::from_millis(2 * 2030));
    // No third pair fits into the time, and two tell.
    let (control, _) = controlled("whole-run", [1, 1], [3000, 3010]);
    assert_eq!(control.unwrap().depends(), Some(false));
    assert_eq!(controlled("lines", [100, 97], [100, 100]).1, Duration::from_millis(8 * 200));
}

#[test]
fn a_run_that_does_not_end_in_time_is_given_up() {
    let (control, took) = controlled("whole-run", [1, 1], [100_000, 200_000]);
    assert_eq!((control, took), (Err(EngineError::OutOfTime), Duration::ZERO));
}
