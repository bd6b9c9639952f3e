use super::*;
use crate::prove::experiments;
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
        let sample = Sample { units, length_ns: ns, busy_ns: ns, ..Sample::default() };
        Ok(vec![Measured { role: 0, sample }])
    }
}

fn controlled(unit: &str, units: [u64; 2], ms: [u64; 2]) -> (Result<Control, EngineError>, Duration) {
    let mut victim = text::program("victim --fast");
    victim.insert("unit".into(), unit.into());
    let topology = Topology::read(&fixtures::vm_2cpu().root()).unwrap();
    let question = experiments::tests::question(victim);
    let plan = Plan::new(&experiments::control(&question), &topology, None).unwrap();
    let mut engine = Simulated { units, ms, stopped: false, now: Duration::ZERO, limit: None };
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
