//! What every question of several stages shares: one way to measure what comes next, to keep it, to end early
//! and to go on.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ringfence_dataset::Dataset;
use ringfence_engine::written;
use ringfence_experiment::Experiment;
use ringfence_experiment::ended::Ended;
use ringfence_experiment::plan::Plan;
use ringfence_machine::Machine;

use crate::StudyError;
use crate::folder::{self, Folder, Kept};
use crate::measure::{Measurement, continue_or_begin};
use crate::stage::Stage;
use crate::watch::Watch;

/// A question that takes several experiments, each of them a dataset in its folder.
pub trait Study {
    /// What follows from all that was measured.
    type Findings;

    /// How long each stage is expected to take, as far as is known before any; it may turn out that there
    /// are fewer or more.
    fn stages(&self) -> Vec<Duration>;

    /// What is kept beside the datasets, as it is now: with it, another run can go on.
    fn kept(&self) -> Option<Kept>;

    /// What is measured next, after `stages`; `None` where everything is settled. What is not an experiment
    /// (probes, a control) is done here.
    ///
    /// # Errors
    /// Where that cannot be measured.
    fn next(&mut self, stages: &[Stage], here: &mut Here) -> Result<Option<Planned>, StudyError>;

    /// What follows from the stages, as far as they were measured before it ended early, if it did.
    ///
    /// # Errors
    /// Where nothing does.
    fn conclude(&mut self, stages: &[Stage], ended_early: Option<&str>)
    -> Result<Self::Findings, StudyError>;
}

/// An experiment that comes next.
pub struct Planned {
    /// What it is called while it is measured.
    pub name: String,
    /// The folder of its dataset.
    pub dir: PathBuf,
    /// The experiment.
    pub experiment: Experiment,
}

/// Where a study is carried out, and who looks on.
pub struct Here<'a> {
    /// The machine.
    pub machine: &'a Machine,
    /// The study's folder.
    pub dir: &'a Path,
    /// Set by whoever wants it to end.
    pub stop: &'a AtomicBool,
    /// Told how it comes along.
    pub watch: &'a mut dyn Watch,
    expected: Vec<Duration>,
    number: usize,
    begun: Instant,
    // Measured by earlier runs.
    spent: Duration,
}

impl<'a> Here<'a> {
    /// A folder on a machine.
    pub fn new(machine: &'a Machine, dir: &'a Path, stop: &'a AtomicBool, watch: &'a mut dyn Watch) -> Self {
        let (expected, begun) = (Vec::new(), Instant::now());
        Self { machine, dir, stop, watch, expected, number: 0, begun, spent: Duration::ZERO }
    }

    /// Says that a stage begins.
    pub fn begin(&mut self, name: &str) {
        let (number, of) = (self.number, self.expected.len().max(self.number + 1));
        let expected = self.expected.get(number).copied().unwrap_or_default();
        let after = self.expected.iter().skip(number + 1).sum();
        self.watch.stage(name, number, of, expected, after);
        self.number += 1;
    }

    /// How long it has taken so far, with what earlier runs have measured. On a described machine it is what was simulated:
    /// equal questions have equal answers, whatever simulates them.
    pub fn elapsed(&self) -> Duration {
        if self.machine.simulated.is_some() {
            return folder::measured_for(self.dir);
        }
        self.spent + self.begun.elapsed()
    }

    /// Whether somebody wants it to end.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn measure(&mut self, planned: &Planned) -> Result<Measurement, StudyError> {
        self.begin(&planned.name);
        // What was begun goes on as it was planned then, by an earlier version too.
        let mut experiment = planned.experiment.clone();
        if ringfence_dataset::is_dataset(&planned.dir) {
            experiment.measure = Dataset::open(&planned.dir)?.plan.experiment.measure;
        }
        if self.machine.simulated.is_none()
            && let Ok(plan) = Plan::new(&experiment, &self.machine.topology, self.machine.features.as_ref())
            && let Some(estimate) = written::estimate(&plan)
        {
            self.watch.note(&estimate);
        }
        let mut progress = |progress| self.watch.progress(progress);
        continue_or_begin(&experiment, self.machine, &planned.dir, self.stop, &mut progress)
    }
}

/// What came of a study.
#[derive(Debug)]
pub struct Done<F> {
    /// What was found, as far as it was measured.
    pub findings: F,
    /// Why it ended early, if it did.
    pub ended_early: Option<String>,
    /// What somebody else has changed meanwhile of what was set for this, one sentence each: it was left so.
    pub left: Vec<String>,
}

/// Measures what a study wants until it is settled, going on with what its folder holds already.
///
/// # Errors
/// Where nothing could be measured; nothing that was not there is left behind then. What fails later, or is
/// interrupted, ends it early: what was measured is worth keeping.
pub fn carry_out<S: Study>(study: &mut S, here: &mut Here) -> Result<Done<S::Findings>, StudyError> {
    here.expected = study.stages();
    here.spent = folder::measured_for(here.dir);
    let mut folder = Folder::new(here.dir);
    let (mut measured, mut names): (Vec<Measurement>, Vec<String>) = (Vec::new(), Vec::new());
    let ended_early = loop {
        let stages: Vec<Stage> = measured.iter().map(Stage::from).collect();
        let step = match step(study, &stages, here, &mut folder) {
            // Nothing came of this run.
            Err(error) if measured.iter().all(|done| done.used.is_empty()) => {
                folder.clear();
                return Err(error);
            }
            Err(error) => break Some(error.to_string()),
            Ok(step) => step,
        };
        match step {
            Step::Settled => break None,
            Step::Stopped => break Some("interrupted".into()),
            Step::Measured(name, done) => {
                let why = done.ended.early().map(|why| match done.ended {
                    Ended::Interrupted => why.to_owned(),
                    _ => format!("{name}: {why}"),
                });
                measured.push(*done);
                names.push(name);
                if why.is_some() {
                    break why;
                }
            }
        }
    };
    let stages: Vec<Stage> = measured.iter().map(Stage::from).collect();
    let findings = study.conclude(&stages, ended_early.as_deref())?;
    // What was found is told, whether it can be kept or not.
    let ended_early = ended_early.or(folder.keep(study.kept()).err().map(|error| error.to_string()));
    let left = named(names.iter().zip(&measured).map(|(name, done)| (name.as_str(), done.left.as_slice())));
    Ok(Done { findings, ended_early, left })
}

// Each sentence once, behind the stages that it is about where there are several.
fn named<'a>(stages: impl Iterator<Item = (&'a str, &'a [String])> + Clone) -> Vec<String> {
    let mut all: Vec<(&str, Vec<&str>)> = Vec::new();
    for (stage, sentence) in stages.clone().flat_map(|(stage, said)| said.iter().map(move |one| (stage, one)))
    {
        match all.iter_mut().find(|(known, _)| known == sentence) {
            Some((_, of)) if of.contains(&stage) => {}
            Some((_, of)) => of.push(stage),
            None => all.push((sentence, vec![stage])),
        }
    }
    let several = stages.count() > 1;
    let one = |(sentence, of): (&str, Vec<&str>)| match several {
        true => format!("{}: {sentence}", of.join(", ")),
        false => sentence.to_owned(),
    };
    all.into_iter().map(one).collect()
}

enum Step {
    Settled,
    Stopped,
    Measured(String, Box<Measurement>),
}

fn step<S: Study>(
    study: &mut S,
    stages: &[Stage],
    here: &mut Here,
    folder: &mut Folder,
) -> Result<Step, StudyError> {
    // Before anything is measured, so that whoever is killed can go on.
    folder.keep(study.kept())?;
    let Some(planned) = study.next(stages, here)? else { return Ok(Step::Settled) };
    folder.keep(study.kept())?;
    if here.is_stopped() && !stages.is_empty() {
        return Ok(Step::Stopped);
    }
    let first = stages.is_empty();
    let name = &planned.name;
    let done = here.measure(&planned).map_err(|error| if first { error } else { error.within(name) })?;
    here.watch.measured(&done, &planned.dir);
    Ok(Step::Measured(planned.name, Box::new(done)))
}

#[cfg(test)]
#[path = "../tests/inside/carry_out.rs"]
mod tests;
