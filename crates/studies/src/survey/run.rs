//! Surveying: the probes, then one experiment after the other.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use ringfence_engine::write_budget;
use ringfence_experiment::plan::Plan;
use ringfence_experiment::{Error, Experiment, Reason};
use ringfence_machine::Machine;
use ringfence_machine::units::Bytes;

use super::experiments::{self, Depth, Victim, Writers};
use super::{Files, Probes, Survey, conclude, folder, probes};
use crate::few_trials;
use crate::{Done, Here, Kept, Planned, Stage, Study, Watch};

/// How often the survey checks for Ctrl-C while it probes.
const LOOK: Duration = Duration::from_millis(50);

/// What is to be surveyed.
#[derive(Debug, Clone)]
pub struct Options {
    /// For how long.
    pub depth: Depth,
    /// Seed of everything random.
    pub seed: u64,
    /// Folder of the datasets.
    pub dir: PathBuf,
    /// A folder whose file system is surveyed too.
    pub files: Option<Files>,
}

/// Surveys this machine.
///
/// # Errors
/// Where nothing can be measured. What fails or is interrupted later is part of the result.
pub fn run(
    options: &Options,
    machine: &Machine,
    stop: &AtomicBool,
    watch: &mut dyn Watch,
) -> Result<Done<Survey>, Error> {
    let mut surveying = Surveying { options, survey: None, taken: 0 };
    let mut here = Here::new(machine, &options.dir, stop, watch);
    crate::carry_out(&mut surveying, &mut here)
}

/// The experiments that a survey would run, as far as they can be told beforehand: its victim sized
/// after probing, its writers at full rate; without those that are chosen by what was measured
/// first.
pub fn planned(options: &Options, machine: &Machine) -> Vec<Experiment> {
    let Options { depth, seed, .. } = *options;
    let size = target_size(machine);
    let victims = experiments::victims(probes::probe(machine, depth).victim_footprint);
    let writers = Writers::AtFullRate(Vec::new());
    let beside =
        victims.iter().map(|victim| experiments::neighbours(depth, victim, &writers, size, seed));
    let files = options.files.iter().flat_map(|files| files.experiments(depth, seed));
    let all = std::iter::once(experiments::cost(depth, size, seed)).chain(beside).chain(files);
    all.map(|experiment| on(machine, depth, experiment)).collect()
}

/// About how long it takes.
pub fn expected(options: &Options) -> Duration {
    stages(options).into_iter().sum()
}

/// What it writes to disks at most.
pub fn writes(options: &Options, machine: &Machine) -> Bytes {
    let plan = |experiment: &Experiment| crate::plan(experiment, machine).ok();
    let plans = files(options).iter().filter_map(plan).collect::<Vec<_>>();
    Bytes(plans.iter().filter_map(write_budget::at_most).map(|bytes| bytes.0).sum())
}

fn stages(options: &Options) -> Vec<Duration> {
    let seconds = |(full, quick)| match options.depth {
        Depth::Full => full,
        Depth::Quick => quick,
    };
    let files = files(options).into_iter().filter_map(|experiment| experiment.measure.time);
    EXPECTED
        .into_iter()
        .map(|stage| Duration::from_secs(seconds(stage)))
        .chain(files.map(|time| time.0))
        .collect()
}

fn files(options: &Options) -> Vec<Experiment> {
    let Options { depth, seed, files, .. } = options;
    files.as_ref().map_or(Vec::new(), |files| files.experiments(*depth, *seed))
}

fn on(machine: &Machine, depth: Depth, mut experiment: Experiment) -> Experiment {
    few_trials(&mut experiment.measure, machine);
    // Simulated trials scatter little.
    if machine.simulated.is_some() && depth == Depth::Quick {
        experiment.measure.looks.truncate(1);
    }
    experiment
}

// Expected seconds of each stage, full and quick: probes, costs, three victims, the same paced.
const EXPECTED: [(u64, u64); 8] =
    [(11, 6), (24, 9), (21, 5), (21, 5), (19, 5), (13, 3), (13, 3), (11, 3)];

struct Surveying<'a> {
    options: &'a Options,
    // With what the stages so far have shown; absent before the probes.
    survey: Option<Survey>,
    taken: usize,
}

impl Surveying<'_> {
    fn take(&mut self, stages: &[Stage]) {
        let Some(survey) = &mut self.survey else { return };
        for stage in &stages[self.taken..] {
            survey.add(stage);
            note_refusals(survey, stage.plan);
        }
        self.taken = stages.len();
    }

    fn planned(
        &self,
        name: &str,
        experiment: Experiment,
        machine: &Machine,
    ) -> Result<Option<Planned>, Error> {
        let experiment = on(machine, self.options.depth, experiment);
        let dir = self.options.dir.join(&experiment.name);
        Planned::new(name, dir, &experiment, machine).map(Some)
    }

    fn files(&self) -> Vec<Experiment> {
        files(self.options)
    }

    fn in_files(&mut self, number: usize, machine: &Machine) -> Result<Option<Planned>, Error> {
        let (Some(files), Some(survey)) = (&self.options.files, &mut self.survey) else {
            return Ok(None);
        };
        if let Some(reason) = files.unmet(&survey.machine) {
            let line = format!("commits to files in {}, because {reason}", files.dir.display());
            note(&mut survey.not_run, [line]);
            return Ok(None);
        }
        let experiment = self.files().into_iter().nth(number);
        let name = ["what a durable commit costs", "commits next to writers"];
        match experiment {
            Some(experiment) => self.planned(name[number], experiment, machine),
            None => Ok(None),
        }
    }

    fn beside(
        &self,
        victim: &Victim,
        writers: &Writers,
        machine: &Machine,
    ) -> Result<Option<Planned>, Error> {
        let how = if matches!(writers, Writers::Paced(_)) { "paced writers" } else { "writers" };
        let Options { depth, seed, .. } = *self.options;
        let size = target_size(machine);
        let experiment = experiments::neighbours(depth, victim, writers, size, seed);
        self.planned(&format!("{} next to {how}", victim.name), experiment, machine)
    }
}

impl Study for Surveying<'_> {
    type Findings = Survey;

    fn stages(&self) -> Vec<Duration> {
        stages(self.options)
    }

    fn kept(&self) -> Option<Kept> {
        self.survey.as_ref().map(folder::kept)
    }

    fn next(&mut self, stages: &[Stage], here: &mut Here) -> Result<Option<Planned>, Error> {
        let size = target_size(here.machine);
        if self.survey.is_none() {
            here.begin("probing cores and caches");
            let probes = probed(here, self.options.depth)?;
            let survey = Survey::new(here.machine.clone(), probes, size);
            self.survey = Some(Survey { ended_early: Some("it was killed".into()), ..survey });
        }
        self.take(stages);
        let survey = self.survey.as_mut().expect("it was probed above");
        let victims = experiments::victims(survey.probes.victim_footprint);
        let Some(beside) = stages.len().checked_sub(1) else {
            let experiment = experiments::cost(self.options.depth, size, self.options.seed);
            return self.planned("what a durable write costs", experiment, here.machine);
        };
        if let Some(victim) = victims.get(beside) {
            let writers = Writers::AtFullRate(conclude::cheapest_elsewhere(survey));
            return self.beside(victim, &writers, here.machine);
        }
        let paced = match survey.slowest_writer() {
            Some(pace) => {
                survey.pace = Some(pace.to_string());
                if let Some(victim) = victims.get(beside - victims.len()) {
                    return self.beside(victim, &Writers::Paced(pace), here.machine);
                }
                victims.len()
            }
            None => {
                let no_pace = |victim: &Victim| {
                    format!(
                        "{} next to paced writers, because no writer's rate is known",
                        victim.name
                    )
                };
                note(&mut survey.not_run, victims.iter().map(no_pace));
                0
            }
        };
        self.in_files(beside - victims.len() - paced, here.machine)
    }

    fn conclude(&mut self, stages: &[Stage], ended_early: Option<&str>) -> Result<Survey, Error> {
        self.take(stages);
        let survey = self.survey.as_mut().ok_or(Error::interrupted())?;
        survey.ended_early = ended_early.map(str::to_owned);
        survey.conclude();
        Ok(survey.clone())
    }
}

// Probes on a thread of their own, so that Ctrl-C need not wait for them: the thread ends with the
// program. Nothing else is measured at the same time.
fn probed(here: &Here, depth: Depth) -> Result<Probes, Error> {
    let (ended, probes) = mpsc::channel();
    let machine = here.machine.clone();
    // After Ctrl-C the receiver no longer exists.
    std::thread::spawn(move || drop(ended.send(probes::probe(&machine, depth))));
    loop {
        match probes.recv_timeout(LOOK) {
            Ok(probes) => return Ok(probes),
            Err(RecvTimeoutError::Timeout) if here.is_stopped() => {
                return Err(Error::interrupted());
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => panic!("the probes panicked"),
        }
    }
}

fn note_refusals(survey: &mut Survey, plan: &Plan) {
    let name = &plan.experiment.name;
    let mut reasons: Vec<&Reason> = plan.not_run.iter().map(|not_run| &not_run.reason).collect();
    reasons.dedup();
    for reason in reasons {
        let cases: Vec<&str> = plan
            .not_run
            .iter()
            .filter(|not_run| not_run.reason == *reason)
            .map(|not_run| plan.cases[not_run.case].label.as_str())
            .collect();
        let cases =
            if cases.len() > 3 { format!("{} cases", cases.len()) } else { cases.join(", ") };
        note(&mut survey.not_run, [format!("{name}: {cases}, because {reason}")]);
    }
}

// Stages are gone through again after each.
fn note(lines: &mut Vec<String>, more: impl IntoIterator<Item = String>) {
    for line in more {
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
}

// Several times the last-level cache, so that a writer meets lines that are not cached, within
// reason and a quarter of what is free.
fn target_size(machine: &Machine) -> Bytes {
    let cpu = machine.topology.usable().first().unwrap_or(0);
    let cache = machine.topology.llc_size(cpu).map_or(64 << 20, |size| size.0);
    let wanted = (cache * 4).next_power_of_two().clamp(256 << 20, 1 << 30);
    let free =
        machine.targets.iter().find(|target| target.name == "dram").and_then(|target| target.free);
    let free = free.map_or(1 << 30, |bytes| bytes.0);
    let fits = (free / 4).max(16 << 20);
    // The largest power of two that fits.
    Bytes(if wanted <= fits { wanted } else { (fits / 2 + 1).next_power_of_two() })
}
