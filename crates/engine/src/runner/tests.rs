use std::time::Duration;

use ringfence_experiment::class::Class;
use ringfence_experiment::plan::Active;
use ringfence_experiment::{Decide, Error, ErrorKind, Experiment};
use ringfence_machine::cpulist::CpuId;
use ringfence_machine::fixtures;
use ringfence_machine::topology::Topology;

use super::*;

/// An engine without time: every window is 1 ms, and the victim does what the test says.
struct Scripted {
    log: Vec<String>,
    between: Vec<Vec<CpuId>>,
    // Units of the victim's next window, by whether the aggressor runs.
    rate: fn(u32, bool) -> u64,
    trial: u32,
    fail_at: Option<usize>,
    limit_at: Option<usize>,
    rounds: Vec<Option<f64>>,
    // Time on the engine's own clock, what a trial's start costs and what a window does.
    now: Duration,
    start: Duration,
    window: Duration,
    give_up_at: Option<Duration>,
    // An end is requested while this trial's tasks are started.
    cut_at: Option<u32>,
}

impl Scripted {
    fn new(rate: fn(u32, bool) -> u64) -> Self {
        Self {
            log: Vec::new(),
            between: Vec::new(),
            rate,
            trial: 0,
            fail_at: None,
            limit_at: None,
            rounds: vec![Some(100.0)],
            now: Duration::ZERO,
            start: Duration::ZERO,
            window: Duration::from_millis(1),
            give_up_at: None,
            cut_at: None,
        }
    }
}

impl Engine for Scripted {
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
        self.give_up_at = at;
    }

    fn begin_trial(&mut self, trial: u32) -> Result<(), Error> {
        if self.cut_at == Some(trial) {
            return Err(Error::interrupted());
        }
        self.now += self.start;
        self.log.push(format!("trial {trial}"));
        self.trial = trial;
        Ok(())
    }

    fn probe(&mut self, cpus: &[CpuId]) -> Result<Option<f64>, Error> {
        self.log.push("probe".into());
        self.between.push(cpus.to_vec());
        let next = self.rounds.len() > 1;
        Ok(if next { self.rounds.remove(0) } else { self.rounds[0] })
    }

    fn window(&mut self, active: &[Active]) -> Result<Vec<Measured>, Error> {
        if self.fail_at == Some(self.log.len()) {
            return Err(Error::failed("victim 0 on CPU 0 ended: signal 9"));
        }
        if self.limit_at.is_some_and(|at| self.log.len() >= at) {
            return Err(Error::limit("it was paused too long"));
        }
        let end = self.now + self.window;
        if let Some(at) = self.give_up_at.filter(|at| end > *at) {
            self.now = at;
            return Err(Error::out_of_time());
        }
        self.now = end;
        let beside = active.len() > 1;
        self.log.push(if beside { "beside".into() } else { "alone".into() });
        let task = |active: &Active| Measured {
            role: active.role,
            length_ns: 1_000_000,
            busy_ns: 1_000_000,
            units: if active.role == 0 { (self.rate)(self.trial, beside) } else { 7 },
            ..Measured::default()
        };
        Ok(active.iter().map(task).collect())
    }
}

#[derive(Default)]
struct Kept {
    samples: Vec<Sample>,
    steps: u64,
    refuse_after: Option<usize>,
}

impl Observer for Kept {
    fn samples(&mut self, samples: &[Sample]) -> Result<(), Error> {
        if self.refuse_after.is_some_and(|most| self.samples.len() >= most) {
            return Err(Error::failed("no space left"));
        }
        self.samples.extend_from_slice(samples);
        Ok(())
    }

    fn progress(&mut self, progress: Progress) {
        assert!(progress.done <= progress.most);
        self.steps = progress.done;
    }
}

fn plan(measure: &str) -> Plan {
    let text = format!(
        "schema = 2
name = 'x'
metric = 'victim'
[measure]
{measure}
[[role]]
name = 'victim'
task = {{ workload = 'alu' }}
[[role]]
name = 'aggressor'
task = {{ workload = 'alu' }}
[[arm]]
name = 'alone'
active = ['victim']
[[arm]]
name = 'beside'
active = ['victim', 'aggressor']
baseline = 'alone'
"
    );
    let topology = Topology::read(&fixtures::vm_2cpu().root()).unwrap();
    Plan::new(&Experiment::parse(&text).unwrap(), &topology, None).unwrap()
}

fn go(plan: &Plan, engine: &mut Scripted, kept: &mut Kept) -> (Vec<Sample>, Ended) {
    run(plan, engine, &AtomicBool::new(false), kept).unwrap()
}

#[test]
fn a_trial_probes_measures_both_windows_and_probes_again() {
    let plan = plan("looks = [4]\nrounds = 2");
    let mut engine = Scripted::new(|_, beside| if beside { 500 } else { 1000 });
    let mut kept = Kept::default();
    let (samples, ended) = go(&plan, &mut engine, &mut kept);
    assert_eq!(ended, Ended::Complete);
    assert_eq!((kept.samples.len(), kept.steps), (samples.len(), 8));
    let trial: Vec<&str> = engine.log[..8].iter().map(String::as_str).collect();
    assert_eq!(trial[0..2], ["trial 0", "probe"]);
    for pair in [&trial[2..4], &trial[5..7]] {
        let mut pair = pair.to_vec();
        pair.sort_unstable();
        assert_eq!(pair, ["alone", "beside"], "{trial:?}");
    }
    assert_eq!((trial[4], trial[7]), ("probe", "probe"));
    // Three samples a pair: the victim alone, and two tasks beside each other.
    assert_eq!(samples.len(), 4 * 2 * 3);
    let results = results::results(&plan, &samples, 0.95);
    let effect = results[0].effect.as_ref().unwrap();
    assert!((effect.by_class.all.slowdown.as_ref().unwrap().value - 2.0).abs() < 1e-9);
    assert_eq!(results[0].co_runners[0].units_per_s, 7000.0);
}

#[test]
fn probes_class_the_pair_between_them() {
    let plan = plan("looks = [2]\nrounds = 2");
    let mut engine = Scripted::new(|_, _| 1000);
    engine.rounds = vec![Some(100.0), Some(120.0), Some(350.0), Some(360.0), Some(400.0), None];
    let (samples, _) = go(&plan, &mut engine, &mut Kept::default());
    let classes: Vec<Class> = samples
        .iter()
        .filter(|s| s.position == 0 && s.role == "victim".into())
        .map(|s| s.class)
        .collect();
    assert_eq!(classes, [Class::Sharing, Class::Mixed, Class::Apart, Class::Unprobed]);
    assert_eq!((samples[0].ping_before_ns, samples[0].ping_after_ns), (Some(100.0), Some(120.0)));
}

const TWO_PLACES: &str = "
schema = 2
name = 'places'
metric = 'victim'
measure = { looks = [2], rounds = 4 }
[[role]]
name = 'victim'
task = { workload = 'chase' }
[[role]]
name = 'near'
placement = 'llc'
count = 2
task = { workload = 'alu' }
[[role]]
name = 'far'
placement = 'remote'
task = { workload = 'alu' }
[[arm]]
name = 'alone'
active = ['victim']
[[arm]]
name = 'near'
active = ['victim', 'near']
baseline = 'alone'
[[arm]]
name = 'far'
active = ['victim', 'far']
baseline = 'alone'
";

#[test]
fn the_cpus_of_the_case_are_probed_and_no_others() {
    let topology = Topology::read(&fixtures::xeon_2s64t().root()).unwrap();
    let plan = Plan::new(&Experiment::parse(TWO_PLACES).unwrap(), &topology, None).unwrap();
    let mut engine = Scripted::new(|_, _| 1000);
    let (samples, _) = go(&plan, &mut engine, &mut Kept::default());
    let (near, far) = (vec![2, 4], vec![2, 1]);
    assert!(
        engine.between.iter().all(|cpus| *cpus == near || *cpus == far),
        "{:?}",
        engine.between
    );
    // A probe after every step; one before it at the beginning of a trial and where the CPUs
    // change.
    let steps: std::collections::BTreeSet<(u32, u32, u32, u32)> =
        samples.iter().map(|s| (s.trial, s.round, s.step, s.step_case)).collect();
    let mut changes = 0;
    let mut last = None;
    for (trial, _, _, case) in &steps {
        changes += usize::from(last != Some((*trial, *case)));
        last = Some((*trial, *case));
    }
    assert_eq!(engine.between.len(), steps.len() + changes);
}

#[test]
fn it_stops_at_a_look_once_precise_and_not_between_looks() {
    let plan = plan("looks = [4, 6, 9]\nrounds = 1\nprecision = '1%'");
    let steady = go(
        &plan,
        &mut Scripted::new(|_, beside| if beside { 990 } else { 1000 }),
        &mut Kept::default(),
    );
    assert_eq!(steady.1, Ended::Precise);
    assert_eq!(steady.0.iter().map(|sample| sample.trial).max(), Some(3));
    let unsteady =
        |trial: u32, beside: bool| if beside && trial.is_multiple_of(2) { 900 } else { 1000 };
    let noisy = go(&plan, &mut Scripted::new(unsteady), &mut Kept::default());
    assert_eq!(noisy.1, Ended::Complete);
    assert_eq!(noisy.0.iter().map(|sample| sample.trial).max(), Some(8));
}

#[test]
fn what_was_measured_is_kept_however_it_ends() {
    let plan = plan("looks = [4]\nrounds = 1");
    let mut failing = Scripted::new(|_, _| 1000);
    // The first window of the second trial.
    failing.fail_at = Some(7);
    let mut kept = Kept::default();
    let (samples, ended) = go(&plan, &mut failing, &mut kept);
    assert!(matches!(&ended, Ended::Failed(why) if why.contains("signal 9")), "{ended:?}");
    assert_eq!((samples.len(), kept.samples.len()), (3, 3));

    // Where there is nothing to keep it is the engine's own error, whichever window brings it.
    let mut first = Scripted::new(|_, _| 1000);
    first.fail_at = Some(2);
    let stop = AtomicBool::new(false);
    let error = run(&plan, &mut first, &stop, &mut Kept::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Failed);
    assert!(error.text().contains("signal 9"), "{error}");

    let mut limited = Scripted::new(|_, _| 1000);
    limited.limit_at = Some(7);
    let mut kept = Kept::default();
    let (samples, ended) = go(&plan, &mut limited, &mut kept);
    assert_eq!(ended, Ended::Limit("a limit was reached: it was paused too long".into()));
    assert_eq!((samples.len(), kept.samples.len()), (3, 3));
    assert!(!ended.is_planned());

    let mut full = Kept { refuse_after: Some(3), ..Kept::default() };
    let (_, ended) = go(&plan, &mut Scripted::new(|_, _| 1000), &mut full);
    assert_eq!(ended, Ended::Failed("no space left".into()));
    assert_eq!(full.samples.len(), 3);

    let stop = AtomicBool::new(true);
    let mut engine = Scripted::new(|_, _| 1000);
    let (samples, ended) = run(&plan, &mut engine, &stop, &mut Kept::default()).unwrap();
    assert_eq!((samples.len(), ended), (0, Ended::Interrupted));
}

// Trials of 20 ms: a start of 18 and two windows of 1.
fn in_time(time_ms: u64, window_ms: u64) -> (Vec<Sample>, Ended, Duration) {
    let plan = plan(&format!("looks = [1000]\nrounds = 1\ntime = '{time_ms}ms'"));
    let mut engine = Scripted::new(|_, _| 1000);
    (engine.start, engine.window) = (Duration::from_millis(18), Duration::from_millis(window_ms));
    let (samples, ended) = go(&plan, &mut engine, &mut Kept::default());
    (samples, ended, engine.now)
}

fn trials(samples: &[Sample]) -> u32 {
    samples.iter().map(|sample| sample.trial + 1).max().unwrap_or(0)
}

#[test]
fn a_budget_is_spent_and_begins_no_trial_that_would_not_fit() {
    for (budget, fit) in [(200, 10), (219, 10), (220, 11), (20, 1), (39, 1)] {
        let (samples, ended, took) = in_time(budget, 1);
        assert_eq!((trials(&samples), ended), (fit, Ended::Time), "{budget} ms");
        assert_eq!(took, Duration::from_millis(20) * fit, "{budget} ms");
    }
}

#[test]
fn the_first_figure_may_exceed_the_time_by_a_quarter() {
    for (time, trials_made) in [(65, 4), (64, 4), (63, 3), (80, 4)] {
        let (samples, ended, _) = in_time(time, 1);
        assert_eq!((trials(&samples), ended), (trials_made, Ended::Time), "{time} ms");
    }
}

#[test]
fn a_first_trial_that_does_not_fit_is_given_up_with_its_windows() {
    // The first window of 100 ms would end at 118.
    let (samples, ended, took) = in_time(50, 100);
    assert_eq!((samples.len(), ended, took), (0, Ended::Time, Duration::from_millis(50)));
}

#[test]
fn a_time_is_not_decided_before_the_baseline_is_known() {
    let mut plan = plan("looks = [6, 9, 12]");
    plan.experiment.measure.decide = Some(Decide::of("beside", "mean<1ms".parse().unwrap()));
    let ended = |rate| go(&plan, &mut Scripted::new(rate), &mut Kept::default()).1;
    assert_eq!(ended(|_, _| 1000), Ended::Precise);
    // Beside it is known as well as before.
    let scattered =
        |trial: u32, beside: bool| if beside || trial.is_multiple_of(2) { 1000 } else { 1 };
    assert_eq!(ended(scattered), Ended::Complete);
}

#[test]
fn a_time_is_compared_with_an_arm_that_has_no_baseline() {
    let decided = |budget: &str, rate| {
        let mut plan = plan("looks = [6, 9, 12]");
        plan.experiment.measure.decide = Some(Decide::of("alone", budget.parse().unwrap()));
        let (samples, ended) = go(&plan, &mut Scripted::new(rate), &mut Kept::default());
        let sides: Vec<_> = judged(&plan, &samples, 0.95).iter().map(|one| one.within).collect();
        (ended, sides)
    };
    // 1000 units in a millisecond, 1 us each.
    assert_eq!(decided("mean<2us", |_, _| 1000), (Ended::Precise, vec![Some(true)]));
    assert_eq!(decided("mean<500ns", |_, _| 1000), (Ended::Precise, vec![Some(false)]));
    let scattered = |trial: u32, _| if trial.is_multiple_of(2) { 1000 } else { 250 };
    assert_eq!(decided("mean<2us", scattered), (Ended::Complete, vec![None]));
}

#[test]
fn a_trial_that_drags_on_exceeds_the_budget_by_a_trial_at_most() {
    let plan = plan("looks = [1000]\nrounds = 4\ntime = '100ms'");
    // Trials of 8 ms, until the eleventh hangs in one of its windows.
    struct Hangs(Scripted);
    impl Engine for Hangs {
        // No arm of these experiments asks for anything to be set apart.
        fn arrange(&mut self, _: usize) -> Result<(), Error> {
            Ok(())
        }
        fn end(self: Box<Self>) -> Result<Vec<String>, Error> {
            Ok(Vec::new())
        }
        fn elapsed(&self) -> Duration {
            self.0.elapsed()
        }
        fn give_up_at(&mut self, at: Option<Duration>) {
            self.0.give_up_at(at);
        }
        fn begin_trial(&mut self, trial: u32) -> Result<(), Error> {
            if trial == 10 {
                self.0.window = Duration::from_secs(1);
            }
            self.0.begin_trial(trial)
        }
        fn probe(&mut self, cpus: &[CpuId]) -> Result<Option<f64>, Error> {
            self.0.probe(cpus)
        }
        fn window(&mut self, active: &[Active]) -> Result<Vec<Measured>, Error> {
            self.0.window(active)
        }
    }
    let mut engine = Hangs(Scripted::new(|_, _| 1000));
    let (samples, ended) =
        run(&plan, &mut engine, &AtomicBool::new(false), &mut Kept::default()).unwrap();
    assert_eq!((trials(&samples), ended), (10, Ended::Time));
    assert_eq!(engine.0.now, Duration::from_millis(100 + 8));
}

#[test]
fn an_end_that_is_asked_for_while_a_trial_starts_keeps_those_before() {
    let plan = plan("looks = [10]\nrounds = 4");
    for (cut_at, kept) in [(0, 0), (3, 3)] {
        let mut engine = Scripted::new(|_, _| 1000);
        engine.cut_at = Some(cut_at);
        let (samples, ended) =
            run(&plan, &mut engine, &AtomicBool::new(false), &mut Kept::default()).unwrap();
        assert_eq!((trials(&samples), ended), (kept, Ended::Interrupted));
    }
}

// How many steps are measured before it is stopped.
fn cut_after(plan: &Plan, steps: u64, rate: fn(u32, bool) -> u64) -> (Vec<Sample>, Ended) {
    struct Cut<'a>(&'a AtomicBool, u64);
    impl Observer for Cut<'_> {
        fn samples(&mut self, _: &[Sample]) -> Result<(), Error> {
            Ok(())
        }
        fn progress(&mut self, progress: Progress) {
            self.0.store(progress.done >= self.1, Ordering::Relaxed);
        }
    }
    let stop = AtomicBool::new(steps == 0);
    run(plan, &mut Scripted::new(rate), &stop, &mut Cut(&stop, steps)).unwrap()
}

fn resume_with(
    plan: &Plan,
    samples: Vec<Sample>,
    rate: fn(u32, bool) -> u64,
) -> (Vec<Sample>, Ended, Scripted) {
    let mut engine = Scripted::new(rate);
    let earlier = Earlier::new(plan, samples, 0).unwrap();
    let had = earlier.samples.len();
    let mut kept = Kept::default();
    let (samples, ended) =
        resume(plan, earlier, &mut engine, &AtomicBool::new(false), &mut kept).unwrap();
    assert_eq!(kept.samples, samples[had..], "the observer is given what is new");
    (samples, ended, engine)
}

fn without_times(mut samples: Vec<Sample>) -> Vec<Sample> {
    samples.iter_mut().for_each(|sample| sample.start_ns = 0);
    samples
}

#[test]
fn a_run_cut_after_any_step_goes_on_to_the_same_samples_and_figures() {
    let unsteady =
        |trial: u32, beside: bool| 1000 + u64::from(trial % 3) * 7 - if beside { 40 } else { 0 };
    for measure in ["looks = [4]\nrounds = 3", "looks = [4, 6, 9]\nrounds = 2\nprecision = '2%'"] {
        let plan = plan(measure);
        let (whole, ended) = go(&plan, &mut Scripted::new(unsteady), &mut Kept::default());
        let steps = Earlier::new(&plan, whole.clone(), 0).unwrap().steps();
        for cut in 0..steps {
            let (part, cut_by) = cut_after(&plan, cut, unsteady);
            assert_eq!(cut_by, Ended::Interrupted);
            let (samples, how, engine) = resume_with(&plan, part.clone(), unsteady);
            assert_eq!(
                (without_times(samples.clone()), &how),
                (without_times(whole.clone()), &ended),
                "cut at {cut}"
            );
            let text = |samples: &[Sample]| {
                serde_json::to_string(&results::results(&plan, samples, 0.95)).unwrap()
            };
            assert_eq!(text(&samples), text(&whole));
            // Trials that are complete do not begin again.
            let of_trial = u64::from(plan.experiment.measure.rounds);
            let trials =
                engine.log.iter().filter(|entry| entry.starts_with("trial")).count() as u64;
            assert_eq!(trials, steps / of_trial - cut / of_trial, "cut at {cut}");
            // No window starts before what was there ended.
            let end =
                part.iter().map(|sample| sample.start_ns + sample.length_ns).max().unwrap_or(0);
            assert!(samples[part.len()..].iter().all(|sample| sample.start_ns >= end));
        }
    }
}

#[test]
fn a_run_killed_before_its_look_stops_there() {
    let plan = plan("looks = [4, 6, 9]\nrounds = 1\nprecision = '1%'");
    let steady = |_, beside| if beside { 990 } else { 1000 };
    let (whole, ended) = go(&plan, &mut Scripted::new(steady), &mut Kept::default());
    assert_eq!(ended, Ended::Precise);
    let (samples, ended, engine) = resume_with(&plan, whole.clone(), steady);
    assert_eq!((samples, ended), (whole, Ended::Precise));
    assert_eq!(engine.log, [""; 0]);
}

#[test]
fn a_complete_run_has_nothing_to_go_on_with() {
    let plan = plan("looks = [2]\nrounds = 2");
    let (whole, _) = go(&plan, &mut Scripted::new(|_, _| 1000), &mut Kept::default());
    let (samples, ended, engine) = resume_with(&plan, whole.clone(), |_, _| 1000);
    assert_eq!((samples, ended, engine.log.len()), (whole, Ended::Complete, 0));
}

#[test]
fn samples_of_another_plan_are_refused() {
    let plan = plan("looks = [4]\nrounds = 2");
    let (whole, _) = go(&plan, &mut Scripted::new(|_, _| 1000), &mut Kept::default());
    let refused = |samples: Vec<Sample>| Earlier::new(&plan, samples, 0).unwrap_err();
    // A step that is missing, one by half, another order, and too many.
    assert!(refused(whole[3..].to_vec()).contains("step 0 of round 0 of trial 0"));
    assert!(refused(whole[..8].to_vec()).contains("trial 1"), "{}", refused(whole[..8].to_vec()));
    let mut swapped = whole.clone();
    swapped.iter_mut().for_each(|sample| sample.position = 1 - sample.position);
    assert!(refused(swapped).contains("differs from the plan"));
    let mut more = whole.clone();
    more.extend(whole[..3].iter().map(|sample| Sample { trial: 4, ..sample.clone() }));
    assert!(refused(more).contains("more than the plan's 4 trials"));
}

#[test]
fn the_time_of_a_part_is_its_own() {
    // What was measured before is not counted against it.
    let (part, _) = cut_after(&plan("looks = [1000]\nrounds = 1"), 2, |_, _| 1000);
    let plan = plan("looks = [1000]\nrounds = 1\ntime = '0ms'");
    assert_eq!(part.iter().map(|sample| sample.trial).max(), Some(1));
    let (samples, ended, engine) = resume_with(&plan, part.clone(), |_, _| 1000);
    assert_eq!((samples, ended, engine.log.len()), (part, Ended::Time, 0));
}
