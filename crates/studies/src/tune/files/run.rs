//! Measures the stages and puts the policy together.

use std::path::Path;
use std::time::Duration;

use crate::{Here, Kept, Planned, Stage, Study, plan};
use ringfence_analysis::estimate::{Estimate, Finding, Looks, Verdict};
use ringfence_analysis::results;
use ringfence_experiment::task::{Commit, Sync, Target};
use ringfence_experiment::{Error, Experiment, Reason};
use ringfence_machine::Machine;
use ringfence_persist::Methods;
use ringfence_persist::policy::{Fingerprint, Policy, Prices};
use serde::Serialize;

use super::Question;
use super::choice::{self, Choice, Costs, PLAIN};
use super::experiments::{self, BATCH_ARM, MAPPED_ARM, PLAIN_BATCH_ARM, WAY_ARM};

/// What was found.
#[derive(Debug)]
pub struct Tuned {
    /// Costs by call and layout, a record at a time.
    pub costs: Costs,
    /// Costs of the chosen method by batch; none where that was not measured.
    pub batches: Costs,
    /// Methods that were not run, and why.
    pub not_run: Vec<(String, Reason)>,
    /// What was chosen by cost.
    pub choice: Choice,
    /// The choice against the plain method, on fresh trials, where they differ.
    pub confirmed: Vec<Compared>,
    /// Whether the fresh trials contradict the choice: a part of it is slower than the plain
    /// method.
    pub fell_back: bool,
    /// What the policy has; absent where something failed.
    pub settled: Option<Choice>,
    /// The policy as text; absent where something failed.
    pub policy: Option<String>,
    /// Why it ended early, if it did.
    pub ended_early: Option<String>,
}

/// What was compared on fresh trials.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Compares {
    /// The call and the layout, one record at a time, with the plain method.
    Way,
    /// The choice with its batch, with the plain method.
    Batch,
    /// The plain call and layout with the chosen batch, with the plain method.
    PlainBatch,
    /// The call for stores to a mapping, with msync.
    Mapped,
}

/// One comparison on fresh trials.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "CommitCompared"))]
pub struct Compared {
    /// Of what.
    pub what: Compares,
    /// Time per record, relative to the plain method; `finding` has it too.
    #[serde(skip)]
    pub ratio: Estimate,
    /// What follows.
    pub finding: Finding,
}

/// Refuses what cannot be measured before anything runs.
///
/// # Errors
/// One sentence.
pub fn check(question: &Question, machine: &Machine) -> Result<(), Error> {
    if let Some(simulated) = &machine.simulated {
        let name = &simulated.name;
        return Err(Error::usage(format!(
            "files and disks are not simulated, so they cannot be tuned on {name}: leave out \
             --machine"
        )));
    }
    let all = [Some(experiments::costs(question)), Some(experiments::batches(question, PLAIN.way))];
    for experiment in all.iter().flatten() {
        plan(experiment, machine)?;
    }
    let plain = Commit {
        dir: question.dir.clone(),
        record: question.record,
        size: super::LOG,
        ..Commit::default()
    };
    ringfence_workloads::commit::try_out(&plain).map_err(Error::usage)
}

/// Measures, chooses and confirms.
///
/// # Errors
/// Where nothing can be measured. What fails or is interrupted later is part of the answer.
pub fn run(question: &Question, here: &mut Here) -> Result<Tuned, Error> {
    check(question, here.machine)?;
    let tuning = Tuning { question, dir: here.dir, settled: None };
    Ok(crate::carry_out(&mut { tuning }, here)?.findings)
}

struct Tuning<'a> {
    question: &'a Question,
    dir: &'a Path,
    settled: Option<Choice>,
}

impl Study for Tuning<'_> {
    type Findings = Tuned;

    fn stages(&self) -> Vec<Duration> {
        vec![Duration::ZERO; 3]
    }

    fn kept(&self) -> Option<Kept> {
        None
    }

    fn next(&mut self, stages: &[Stage], here: &mut Here) -> Result<Option<Planned>, Error> {
        let planned = |name: &str, experiment: Experiment| {
            let dir = self.dir.join(&experiment.name);
            Planned::new(name, dir, &experiment, here.machine).map(Some)
        };
        if stages.is_empty() {
            return planned("what each method costs", experiments::costs(self.question));
        }
        let choice = self.choice(stages)?;
        match stages {
            [_] => {
                return planned(
                    "what a batch saves",
                    experiments::batches(self.question, choice.way),
                );
            }
            [_, _] => {
                if let Some(experiment) = experiments::confirmation(self.question, &choice) {
                    return planned("confirming the choice", experiment);
                }
            }
            _ => {}
        }
        self.settled = Some(settle(&choice, &compared(stages.get(2))));
        Ok(None)
    }

    fn conclude(&mut self, stages: &[Stage], ended_early: Option<&str>) -> Result<Tuned, Error> {
        let costs = stages.first().ok_or(Error::interrupted())?;
        let choice = self.choice(stages).map_err(|error| {
            let why = ended_early.map_or_else(|| error.to_string(), str::to_owned);
            let place = self.dir.display();
            Error::failed(format!("{why}; what was measured is in {place}"))
        })?;
        let confirmed = compared(stages.get(2));
        let policy = self.settled.map(|settled| {
            let methods = Methods::of_processor();
            Policy {
                processor: Fingerprint::here(),
                target: Target::File(self.question.dir.clone()).to_string(),
                instruction: methods.flush,
                nt_threshold: Some(methods.nt_threshold as u64),
                batch: 1,
                pace: None,
                prices: Prices::default(),
                file: Some(settled.policy()),
            }
        });
        let not_run = stages.iter().flat_map(|stage| {
            let told = |not_run: &ringfence_experiment::plan::NotRun| {
                (stage.plan.cases[not_run.case].label.clone(), not_run.reason.clone())
            };
            stage.plan.not_run.iter().map(told).collect::<Vec<_>>()
        });
        Ok(Tuned {
            costs: costs_of(costs),
            batches: stages.get(1).map(costs_of).unwrap_or_default(),
            not_run: not_run.collect(),
            choice,
            fell_back: speaks_against(&confirmed),
            confirmed,
            settled: self.settled,
            policy: policy.map(|policy| policy.to_string()),
            ended_early: ended_early.map(str::to_owned),
        })
    }
}

impl Tuning<'_> {
    fn choice(&self, stages: &[Stage]) -> Result<Choice, Error> {
        let batches = stages.get(1).map(costs_of);
        choice::choose(&stages.first().map(costs_of).unwrap_or_default(), batches.as_ref())
            .ok_or_else(|| {
                let why = "no method to commit could be measured, so none can be chosen";
                Error::failed(why)
            })
    }
}

/// The policy that follows from the fresh trials of the choice: of a call, a layout and a batch
/// other than the plain ones, what was shown to be cheaper. A mapping keeps msync in the same way.
pub fn settle(choice: &Choice, confirmed: &[Compared]) -> Choice {
    let faster = |what: Compares| {
        confirmed.iter().any(|one| one.what == what && one.finding.verdict == Verdict::Faster)
    };
    let way = if faster(Compares::Way) { choice.way } else { PLAIN.way };
    let by_batch = if way == choice.way { Compares::Batch } else { Compares::PlainBatch };
    let batch = if faster(by_batch) { choice.batch } else { PLAIN.batch };
    let mapped =
        if faster(Compares::Mapped) { choice.mapped } else { choice.mapped.map(|_| Sync::Msync) };
    Choice { way, batch, mapped }
}

// The way or the batch is slower than the plain one: what was seen before was noise.
fn speaks_against(confirmed: &[Compared]) -> bool {
    let of_the_choice = confirmed
        .iter()
        .filter(|compared| matches!(compared.what, Compares::Way | Compares::Batch));
    of_the_choice.into_iter().any(|compared| compared.finding.verdict == Verdict::Slower)
}

// Intervals that hold together: they are read as one claim.
fn level(stage: &Stage) -> f64 {
    let measure = &stage.plan.experiment.measure;
    let compared = stage.plan.measured().len().max(1) as f64;
    let each = 1.0 - (1.0 - measure.confidence.0) / compared;
    Looks::new(measure.looks.clone(), each).map_or(each, |looks| looks.level_at(0))
}

fn compared(stage: Option<&Stage>) -> Vec<Compared> {
    let Some(stage) = stage else { return Vec::new() };
    let (plan, level) = (stage.plan, level(stage));
    let one = |case: usize| {
        let what = match plan.cases[case].arm.as_str() {
            WAY_ARM => Compares::Way,
            BATCH_ARM => Compares::Batch,
            PLAIN_BATCH_ARM => Compares::PlainBatch,
            MAPPED_ARM => Compares::Mapped,
            _ => return None,
        };
        // Batches of several sizes: by the byte.
        let ratio = results::ratio(plan, stage.samples, case, plan.cases[case].baseline?, level);
        let finding = Finding::new(&ratio, plan.experiment.measure.margin.0);
        Some(Compared { what, ratio, finding })
    };
    plan.measured().into_iter().filter_map(one).collect()
}

fn costs_of(stage: &Stage) -> Costs {
    Costs::new(stage.plan, stage.samples)
}
