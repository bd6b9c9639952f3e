//! From an experiment to a dataset on this machine: plan, engine, runner and recorder together.

mod resume;
mod time;

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use ringfence_analysis::estimate::FEWEST_TRIALS;
use ringfence_dataset::{Manifest, Recorder};
use ringfence_engine::available;
use ringfence_engine::program::instructions_are_counted;
use ringfence_engine::runner::{self, Observer, Progress};
use ringfence_engine::{Engine, Used};
use ringfence_experiment::ended::Ended;
use ringfence_experiment::plan::Plan;
use ringfence_experiment::sample::Sample;
use ringfence_experiment::scale::Scale;
use ringfence_experiment::start::Start;
use ringfence_experiment::task::{Command, ProgramUnit, Task};
use ringfence_experiment::units::Span;
use ringfence_experiment::{Error, ErrorKind};
use ringfence_machine::Machine;
use ringfence_machine::cpulist::CpuId;
use ringfence_workloads::room;

use crate::engines;

pub use resume::{continue_or_begin, resume};
pub use time::{Asked, set_default_time, set_time};

/// What was measured.
#[derive(Debug)]
pub struct Measurement {
    /// The plan, with what was not run.
    pub plan: Plan,
    /// All samples, also in the dataset.
    pub samples: Vec<Sample>,
    /// Why it ended.
    pub ended: Ended,
    /// The latencies that distinguish hits from misses, where a task counted latencies; also in the
    /// dataset.
    pub scale: Option<Scale>,
    /// How many of its steps an earlier run had measured.
    pub steps_before: u64,
    /// What each role's processes have used in the windows that were measured now; empty where none
    /// were.
    pub used: Vec<Used>,
    /// How fast a chase as the victim was alone at its starts, those of an earlier run included;
    /// also in the dataset.
    pub starts: Vec<Start>,
    /// What another process has set in resctrl meanwhile, one sentence each: it was left so.
    pub left: Vec<String>,
    /// That of the dataset; none where it could not be brought to an end.
    pub manifest: Option<Manifest>,
}

/// Measures a plan, as far as its time allows, on its machine, and records it in `dir`, which is
/// made with the first samples: what cannot be begun leaves nothing behind.
///
/// # Errors
/// A usage error for what makes no sense or cannot be had here; a failure
/// where nothing was measured or could be kept. What fails later is in [`Measurement::ended`].
pub fn measure(
    mut plan: Plan,
    machine: &Machine,
    dir: &Path,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(Progress),
) -> Result<Measurement, Error> {
    plan.fit_to_time();
    let plan = plan;
    // Before anything runs: a folder that cannot be used should not cost a minute first.
    Recorder::check(dir).map_err(Error::usage_by)?;
    let mut recording = Recording {
        plan: &plan,
        machine,
        dir: dir.into(),
        recorder: None,
        scale: None,
        starts: Vec::new(),
        noted: 0,
        began: None,
        progress,
    };
    if plan.measured().is_empty() {
        recording.begin()?;
        let manifest = recording.finish(&Ended::Complete)?;
        return Ok(Measurement {
            samples: Vec::new(),
            ended: Ended::Complete,
            scale: None,
            plan,
            steps_before: 0,
            used: Vec::new(),
            starts: Vec::new(),
            left: Vec::new(),
            manifest,
        });
    }
    if machine.simulated.is_none() {
        tasks_can_be_measured(&plan)?;
    }
    check_time(&plan)?;
    // While nothing runs yet.
    recording.scale = times_loads_on(&plan).and_then(|cpu| engines::scale(machine, cpu));
    let mut engine = engines::choose_for_all(&plan, machine, stop)?;
    let ran = runner::run(&plan, engine.as_mut(), stop, &mut recording);
    let used = used(&plan, engine.as_ref());
    let left = engine.end();
    let (samples, ended) = ran?;
    if samples.is_empty() {
        match ended {
            Ended::Interrupted => {
                return Err(Error::interrupted());
            }
            Ended::Failed(why) => return Err(Error::failed(why)),
            Ended::Limit(why) => return Err(Error::new(ErrorKind::Limit, why)),
            Ended::Time => return Err(too_short_for_a_trial(&plan)),
            Ended::Complete | Ended::Precise => {}
        }
    }
    let (scale, starts) = (recording.scale, recording.starts.clone());
    recording.note_said(&left);
    let (ended, manifest) = finished(recording.finish(&ended), ended);
    if let Ended::Failed(why) = &ended
        && !ringfence_dataset::is_dataset(dir)
    {
        return Err(Error::failed(why.clone()));
    }
    let (steps_before, left) = (0, left?);
    Ok(Measurement { samples, ended, scale, plan, steps_before, starts, used, left, manifest })
}

/// Hands an engine for a plan to a caller that measures a few windows and keeps none.
///
/// # Errors
/// As [`measure`], and what `with` returns.
pub fn with_engine<T>(
    plan: &Plan,
    machine: &Machine,
    stop: &AtomicBool,
    with: impl FnOnce(&Plan, &mut dyn Engine) -> Result<T, Error>,
) -> Result<T, Error> {
    if machine.simulated.is_none() {
        nothing_is_only_simulated(plan)?;
    }
    progress_can_be_seen(plan)?;
    let mut engine = engines::choose(plan, machine, stop)?;
    let done = with(plan, engine.as_mut());
    engine.end()?;
    done
}

// Why measuring ended, when its dataset was brought to an end, or not: then all that was measured
// is in its journal, and measuring can be resumed from there.
fn finished(end: Result<Option<Manifest>, Error>, ended: Ended) -> (Ended, Option<Manifest>) {
    match (end, ended) {
        (Err(_), Ended::Failed(why)) => (Ended::Failed(why), None),
        (Err(why), _) => (Ended::Failed(why.to_string()), None),
        (Ok(manifest), ended) => (ended, manifest),
    }
}

fn used(plan: &Plan, engine: &dyn Engine) -> Vec<Used> {
    (0..plan.experiment.roles.len()).map(|role| engine.used(role)).collect()
}

/// Refuses a plan whose time is too short for a figure of even one case.
///
/// # Errors
/// A usage error, with the least time that is enough.
pub fn check_time(plan: &Plan) -> Result<(), Error> {
    let least = plan.least_time_for_one();
    let measure = &plan.experiment.measure;
    let Some(time) = measure.time.filter(|time| time.0 < least) else { return Ok(()) };
    let least = Span(least).rounded_up();
    Err(Error::usage(match measure.episode {
        Some(_) => format!(
            "a time of {time} is too short: a figure needs at least {FEWEST_TRIALS} trials, and \
             the episodes of one trial, with and without aggressors, take {}; give {least} or \
             more, shorter episodes or fewer rounds",
            Span(plan.least_time_for_one() / FEWEST_TRIALS).rounded_up(),
        ),
        None => format!(
            "a time of {time} is too short: a figure needs at least {FEWEST_TRIALS} trials, which \
             take {least} here{}; give --time {least} or more, shorter windows or fewer rounds",
            match plan.measured().len() {
                0 | 1 => String::new(),
                cases => format!(
                    " for one case, and {} for all {cases}",
                    Span(plan.least_time()).rounded_up()
                ),
            }
        ),
    }))
}

fn too_short_for_a_trial(plan: &Plan) -> Error {
    let time = plan.experiment.measure.time;
    let time = time.map_or(String::new(), |time| format!(" of {}", Span(time.0).rounded_up()));
    Error::usage(format!(
        "the time{time} ran out before anything was measured, and a figure needs at least \
         {FEWEST_TRIALS} trials: give several times as much"
    ))
}

// The CPU of the first role that times loads in a case that is measured.
fn times_loads_on(plan: &Plan) -> Option<CpuId> {
    let mut active = plan.run_cases().flat_map(|case| &plan.cases[case].active);
    let counts = active.find(|a| plan.variants[a.role][a.variant].task.times_loads())?;
    plan.placed.cpus[counts.role].first().copied()
}

/// That each program shows what it does, that services answer, and that there is memory for all
/// tasks.
///
/// # Errors
/// A usage error otherwise.
pub fn tasks_can_be_measured(plan: &Plan) -> Result<(), Error> {
    nothing_is_only_simulated(plan)?;
    progress_can_be_seen(plan)?;
    services_are_there(plan)?;
    room::for_tasks(plan).map_err(Error::usage)
}

// Checked before anything else: running processes are looked up, and a service is asked once.
fn services_are_there(plan: &Plan) -> Result<(), Error> {
    ringfence_engine::host::find_all(plan)?;
    for (role, variants) in plan.experiment.roles.iter().zip(&plan.variants) {
        let probes = variants.iter().filter_map(|variant| match &variant.task {
            Task::Probe(probe) => Some(probe),
            _ => None,
        });
        for probe in probes {
            let asked = ringfence_workloads::probe::Prober::new(probe);
            asked.map_err(|error| Error::usage(format!("{}: {error}", role.name)))?;
        }
    }
    Ok(())
}

fn nothing_is_only_simulated(plan: &Plan) -> Result<(), Error> {
    for active in plan.run_cases().flat_map(|case| &plan.cases[case].active) {
        if let Task::Trace(trace) = &plan.variants[active.role][active.variant].task {
            return Err(Error::usage(available::only_simulated(trace)));
        }
    }
    Ok(())
}

// CPU time says how much a program ran, not how fast: as a victim's figure it would show no harm
// where there is some.
fn progress_can_be_seen(plan: &Plan) -> Result<(), Error> {
    let counted = instructions_are_counted();
    for (role, variants) in plan.variants.iter().enumerate() {
        for variant in variants {
            let Task::Command(Command { unit, run, .. }) = &variant.task else { continue };
            let unseen = matches!(unit, ProgramUnit::Auto | ProgramUnit::Instructions) && !counted;
            if role == plan.metric && unseen {
                return Err(Error::usage(format!(
                    "the progress of '{run}' is not visible: the kernel counts no instructions \
                     here ('ringfence doctor' explains why); let it print a line per unit of work, \
                     let it report a counter, or time its runs: use prove's --victim-progress \
                     lines, --victim-progress counter or --victim run:COMMAND, or unit = \
                     \"lines\", \"counter\" or \"whole-run\" in an experiment file"
                )));
            }
            if role != plan.metric && *unit == ProgramUnit::WholeRun {
                return Err(Error::usage(format!(
                    "'{run}' is not a victim: only the metric's role can be timed by whole runs; \
                     use --aggressor-progress runs, or unit = \"runs\" in an \
                     experiment file"
                )));
            }
        }
    }
    Ok(())
}

struct Recording<'a> {
    plan: &'a Plan,
    machine: &'a Machine,
    dir: PathBuf,
    recorder: Option<Recorder>,
    scale: Option<Scale>,
    starts: Vec<Start>,
    // How many of these the recorder has.
    noted: usize,
    // When the first trial had started.
    began: Option<Instant>,
    progress: &'a mut dyn FnMut(Progress),
}

impl Recording<'_> {
    // A folder may turn out to be of no use only when there is something to record: it is refused
    // then. What cannot be written into it later is a failure.
    fn begin(&mut self) -> Result<&mut Recorder, Error> {
        if self.recorder.is_none() {
            let machine = serde_json::to_value(self.machine).map_err(Error::failed_by)?;
            let mut recorder = Recorder::create(&self.dir, self.plan, &machine)?;
            if let Some(scale) = self.scale {
                recorder.note_scale(scale).map_err(Error::failed_by)?;
            }
            self.recorder = Some(recorder);
        }
        Ok(self.recorder.as_mut().expect("made above"))
    }

    fn note_said(&mut self, said: &Result<Vec<String>, Error>) {
        if let (Some(recorder), Ok(said)) = (&mut self.recorder, said) {
            recorder.note_said(said);
        }
    }

    fn finish(&mut self, ended: &Ended) -> Result<Option<Manifest>, Error> {
        let Some(mut recorder) = self.recorder.take() else { return Ok(None) };
        recorder.note_starts(&self.starts[self.noted..]).map_err(Error::failed_by)?;
        recorder.finish(ended).map(Some).map_err(Error::failed_by)
    }
}

impl Observer for Recording<'_> {
    fn samples(&mut self, samples: &[Sample]) -> Result<(), Error> {
        let new = self.starts[self.noted..].to_vec();
        self.begin()?.note_starts(&new).map_err(Error::failed_by)?;
        self.noted = self.starts.len();
        self.begin()?.append(samples).map_err(Error::failed_by)
    }

    // Once the first trial has started, nothing is refused any more.
    fn started(&mut self, starts: &[Start]) {
        self.starts.extend_from_slice(starts);
        if self.began.is_none() {
            self.began = Some(Instant::now());
            let measure = &self.plan.experiment.measure;
            let trials = measure.looks.last().copied().unwrap_or_default();
            let left = measure.time.map_or(self.plan.least_trial() * trials, |time| time.0);
            (self.progress)(Progress { done: 0, most: 1, elapsed: Duration::ZERO, left });
        }
    }

    // What is simulated has a clock of its own, which is not the user's.
    fn progress(&mut self, mut progress: Progress) {
        if let (Some(began), Some(_)) = (self.began, &self.machine.simulated)
            && !progress.elapsed.is_zero()
        {
            let share = progress.left.as_secs_f64() / progress.elapsed.as_secs_f64();
            progress.elapsed = began.elapsed();
            progress.left = progress.elapsed.mul_f64(share);
        }
        (self.progress)(progress);
    }
}
