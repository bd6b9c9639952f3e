//! The survey: what durable writes cost on this machine and whom they disturb, with nothing asked.
//!
//! Probes first, since what the kernel says of caches and cores may not be so; then the experiments
//! of [`experiments`], each a dataset of its own; then [`advice`], which follows from the figures alone.

pub mod advice;
mod advise;
pub mod answer;
pub(crate) mod conclude;
pub mod experiments;
pub mod parts;
mod probes;
pub(crate) mod stored;
mod tables;
mod victim;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ringfence_machine::Machine;
use ringfence_machine::units::Bytes;

pub use advice::Advice;
pub use experiments::Depth;
pub use probes::{Probes, Reloads};
pub use tables::{CostRow, NeighbourRow, Neighbours, Survey};
pub use victim::{Level, Outside};

use self::experiments::Writers;
use crate::StudyError;
use crate::measure::{Measurement, measure};
use ringfence_engine::runner::Progress;
use ringfence_experiment::Experiment;
use ringfence_experiment::ended::Ended;
use ringfence_experiment::plan::Plan;

/// What is to be surveyed.
#[derive(Debug, Clone)]
pub struct Options {
    /// For how long.
    pub depth: Depth,
    /// Seed of everything random.
    pub seed: u64,
    /// Folder of the datasets.
    pub dir: PathBuf,
}

/// Told how the survey comes along.
pub trait Watch {
    /// A stage begins: its name, its number from 0 of so many, and how long it is expected to take and
    /// all after it.
    fn stage(&mut self, name: &str, number: usize, of: usize, expected: Duration, after: Duration);

    /// Something to know before a stage begins, in a sentence.
    fn note(&mut self, text: &str) {
        let _ = text;
    }

    /// How far the stage has come.
    fn progress(&mut self, progress: Progress);
}

/// Surveys this machine.
///
/// # Errors
/// Where nothing can be measured. What fails or is interrupted later is part of the result.
pub fn run(
    options: &Options,
    machine: Machine,
    stop: &AtomicBool,
    watch: &mut dyn Watch,
) -> Result<Survey, StudyError> {
    let mut run =
        Run { options, machine: &machine, stop, watch, stage: 0, ended_early: None, not_run: Vec::new() };
    run.begin("probing cores and caches");
    let probes = probes::probe(&machine, options.depth);
    let size = target_size(&machine);
    let mut survey = Survey::new(machine.clone(), probes, size);

    let experiment = experiments::cost(options.depth, size, options.seed);
    if let Some(done) = run.experiment("what a durable write costs", &experiment)? {
        survey.add_cost(&done.plan, &done.samples);
    }
    // What the datasets do not hold, in case that this program is killed.
    let begun = Survey { ended_early: Some("it was killed".into()), ..survey.clone() };
    stored::write(&options.dir, &begun).map_err(|error| StudyError::Failed(error.to_string()))?;
    let victims = experiments::victims(survey.probes.victim_footprint);
    for victim in &victims {
        let writers = Writers::AtFullRate(conclude::cheapest_elsewhere(&survey));
        let experiment = experiments::neighbours(options.depth, victim, &writers, size, options.seed);
        if let Some(done) = run.experiment(&format!("{} beside writers", victim.name), &experiment)? {
            survey.add_neighbours(&victim.name, false, &done.plan, &done.samples);
            survey.add_starts(&done.plan, &done.starts);
        }
    }
    let pace = survey.slowest_writer();
    survey.pace = pace.map(|pace| pace.to_string());
    for victim in &victims {
        let Some(pace) = pace else {
            run.not_run
                .push(format!("{} beside paced writers, because no writer's rate is known", victim.name));
            continue;
        };
        let writers = Writers::Paced(pace);
        let experiment = experiments::neighbours(options.depth, victim, &writers, size, options.seed);
        if let Some(done) = run.experiment(&format!("{} beside paced writers", victim.name), &experiment)? {
            survey.add_neighbours(&victim.name, true, &done.plan, &done.samples);
            survey.add_starts(&done.plan, &done.starts);
        }
    }
    survey.not_run = run.not_run;
    survey.ended_early = run.ended_early;
    survey.conclude();
    stored::write(&options.dir, &survey).map_err(|error| StudyError::Failed(error.to_string()))?;
    Ok(survey)
}

/// The experiments that a survey would run, as far as they can be told beforehand: its victim sized
/// after probing, its writers at full rate; without those that are chosen by what was measured first.
pub fn planned(depth: Depth, seed: u64, machine: &Machine) -> Vec<Experiment> {
    let size = target_size(machine);
    let victims = experiments::victims(probes::probe(machine, depth).victim_footprint);
    let writers = Writers::AtFullRate(Vec::new());
    let beside = victims.iter().map(|victim| experiments::neighbours(depth, victim, &writers, size, seed));
    std::iter::once(experiments::cost(depth, size, seed)).chain(beside).collect()
}

// Expected seconds of each stage, full and quick: probes, costs, three victims, the same paced.
const EXPECTED: [(u64, u64); 8] = [(11, 6), (24, 9), (21, 5), (21, 5), (19, 5), (13, 3), (13, 3), (11, 3)];

struct Run<'a> {
    options: &'a Options,
    machine: &'a Machine,
    stop: &'a AtomicBool,
    watch: &'a mut dyn Watch,
    stage: usize,
    ended_early: Option<String>,
    not_run: Vec<String>,
}

impl Run<'_> {
    fn begin(&mut self, name: &str) {
        let seconds = |stage: &(u64, u64)| match self.options.depth {
            Depth::Full => stage.0,
            Depth::Quick => stage.1,
        };
        let expected = Duration::from_secs(EXPECTED.get(self.stage).map_or(0, seconds));
        let after = Duration::from_secs(EXPECTED.iter().skip(self.stage + 1).map(seconds).sum());
        self.watch.stage(name, self.stage, EXPECTED.len(), expected, after);
        self.stage += 1;
    }

    // Measures one experiment, unless the survey has ended early.
    fn experiment(&mut self, name: &str, experiment: &Experiment) -> Result<Option<Measurement>, StudyError> {
        if self.ended_early.is_some() {
            return Ok(None);
        }
        self.begin(name);
        let dir = self.options.dir.join(&experiment.name);
        let measured = measure(experiment, self.machine, &dir, self.stop, &mut |p| self.watch.progress(p));
        let first = self.stage == 2;
        let done = match measured {
            Ok(done) => done,
            // What was measured before is worth keeping.
            Err(error) if !first => {
                self.ended_early = Some(format!("{name}: {error}"));
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        match &done.ended {
            Ended::Failed(why) => self.ended_early = Some(format!("{name}: {why}")),
            Ended::Interrupted => self.ended_early = Some("interrupted".into()),
            _ if self.stop.load(Ordering::Relaxed) => self.ended_early = Some("interrupted".into()),
            _ => {}
        }
        self.note_refusals(&experiment.name, &done.plan);
        Ok(Some(done))
    }

    fn note_refusals(&mut self, name: &str, plan: &Plan) {
        let mut reasons: Vec<&str> = plan.not_run.iter().map(|not_run| not_run.reason.as_str()).collect();
        reasons.dedup();
        for reason in reasons {
            let cases: Vec<&str> = plan
                .not_run
                .iter()
                .filter(|not_run| not_run.reason == reason)
                .map(|not_run| plan.cases[not_run.case].label.as_str())
                .collect();
            let cases = if cases.len() > 3 { format!("{} cases", cases.len()) } else { cases.join(", ") };
            let line = format!("{name}: {cases}, because {reason}");
            if !self.not_run.contains(&line) {
                self.not_run.push(line);
            }
        }
    }
}

// Several times the last-level cache, so that a writer meets lines that are not cached, within
// reason and a quarter of what is free.
fn target_size(machine: &Machine) -> Bytes {
    let cpu = machine.topology.usable().first().unwrap_or(0);
    let cache = machine.topology.llc_size(cpu).map_or(64 << 20, |size| size.0);
    let wanted = (cache * 4).next_power_of_two().clamp(256 << 20, 1 << 30);
    let free = machine.targets.iter().find(|target| target.name == "dram").and_then(|target| target.free);
    let free = free.map_or(1 << 30, |bytes| bytes.0);
    let fits = (free / 4).max(16 << 20);
    // The largest power of two that fits.
    Bytes(if wanted <= fits { wanted } else { (fits / 2 + 1).next_power_of_two() })
}

#[cfg(test)]
#[path = "../../tests/inside/survey.rs"]
mod tests;
