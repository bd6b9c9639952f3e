//! Measures the stages, as far as each turns out to be needed.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ringfence_machine::Machine;

use super::lever::{Offer, Scene, Shared};
use super::proof::{Proof, Stage};
use super::{AGGRESSOR, BESIDE, Files, Question, Record, experiments, levers};
use crate::engine::{EngineError, fenced};
use crate::experiment::{Experiment, PlacementKind};
use crate::measure::{self, Measurement};
use crate::plan::Plan;
use crate::results;
use crate::runner::Ended;
use crate::survey::Watch;
use crate::task::{ProgramUnit, Task};

/// An answer, and whether it was cut short.
pub struct Proved {
    /// The answer as far as it was measured.
    pub proof: Proof,
    /// Why it ended early, if it did.
    pub ended_early: Option<String>,
    /// What somebody else has set in resctrl meanwhile, one sentence each: it was left so.
    pub left: Vec<String>,
}

/// The look's plan: what can be checked before anything runs.
///
/// # Errors
/// One sentence for what makes no sense or cannot be had here.
pub fn plan_of_look(question: &Question, machine: &Machine) -> Result<Plan, EngineError> {
    let usage = |error: crate::experiment::ExperimentError| EngineError::Usage(error.to_string());
    question.victim().map_err(usage)?;
    question.aggressor().map_err(usage)?;
    let known = levers::all();
    let unknown = question.levers.iter().find(|name| known.iter().all(|lever| lever.name() != *name));
    if let Some(name) = unknown {
        let names: Vec<&str> = known.iter().map(|lever| lever.name()).collect();
        return Err(EngineError::Usage(format!("'{name}' is no lever; there are: {}", names.join(", "))));
    }
    let experiment = experiments::look(question, whole_runs(question));
    let plan = Plan::new(&experiment, &machine.topology).map_err(usage)?;
    let refused = (0..plan.cases.len()).find_map(|case| plan.refusal(case));
    match refused {
        Some(why) => Err(EngineError::Usage(format!("this cannot be measured here, because {why}"))),
        None => Ok(plan),
    }
}

fn whole_runs(question: &Question) -> bool {
    matches!(question.victim(), Ok(Task::Command(command)) if command.unit == ProgramUnit::WholeRun)
}

/// Measures until the matter is settled, or goes on where an interrupted run has stopped.
///
/// # Errors
/// Where nothing can be measured. What fails or is interrupted later is part of the answer.
pub fn run(
    question: &Question,
    machine: &Machine,
    dir: &Path,
    stop: &AtomicBool,
    watch: &mut dyn Watch,
) -> Result<Proved, EngineError> {
    plan_of_look(question, machine)?;
    let files = Files::of(dir);
    let whole = whole_runs(question);
    let mut record = Record::new(question);
    // What was offered before, if this goes on: others may use resctrl differently by now.
    if let Some(earlier) = files.read().ok().filter(|earlier| earlier.question == *question) {
        record = earlier;
    }
    let mut stages = Stages { machine, stop, watch, number: 0, ended_early: None, left: Vec::new() };

    // Before anything is measured, so that whoever is killed can go on; what cannot be begun leaves
    // nothing behind.
    let begun = files.record().exists();
    files.write(&record).map_err(EngineError::Failed)?;
    let look = stages.measure("look", &experiments::look(question, whole), &files.look());
    if look.is_err() && !begun && !files.look().exists() {
        files.remove();
    }
    let look = look?;
    let mut proof = Proof::new(&record, stage(&look), None, &[]);
    if stages.ended_early.is_some() || !proof.needs_levers() {
        return Ok(Proved { proof, ended_early: stages.ended_early, left: stages.left });
    }

    if !files.levers().exists() {
        (record.offers, record.refused) = offers(question, machine, &look.plan, &look);
    }
    files.write(&record).map_err(EngineError::Failed)?;
    let offers = record.offers.clone().unwrap_or_default();
    if offers.is_empty() {
        proof = Proof::new(&record, stage(&look), Some(stage(&look)), &[]);
        return Ok(Proved { proof, ended_early: None, left: stages.left });
    }
    let name = format!("levers ({} settings)", offers.len());
    let tried = stages.measure(&name, &experiments::levers(question, whole, &offers), &files.levers())?;
    let mut confirmed: Vec<Measurement> = Vec::new();
    loop {
        let confirmations: Vec<Stage> = confirmed.iter().map(stage).collect();
        proof = Proof::new(&record, stage(&look), Some(stage(&tried)), &confirmations);
        let Some(next) = proof.next().filter(|_| stages.ended_early.is_none()) else { break };
        let (number, offer) = (confirmed.len(), &offers[next]);
        let experiment = experiments::confirmation(question, whole, offer, number);
        let name = format!("confirming '{}'", offer.arm.name);
        confirmed.push(stages.measure(&name, &experiment, &files.confirmation(number))?);
    }
    Ok(Proved { proof, ended_early: stages.ended_early, left: stages.left })
}

fn stage(done: &Measurement) -> Stage<'_> {
    Stage { plan: &done.plan, samples: &done.samples }
}

struct Stages<'a> {
    machine: &'a Machine,
    stop: &'a AtomicBool,
    watch: &'a mut dyn Watch,
    number: usize,
    ended_early: Option<String>,
    left: Vec<String>,
}

impl Stages<'_> {
    fn measure(
        &mut self,
        name: &str,
        experiment: &Experiment,
        dir: &Path,
    ) -> Result<Measurement, EngineError> {
        self.watch.stage(name, self.number, 3.max(self.number + 1), Duration::ZERO, Duration::ZERO);
        self.number += 1;
        let mut progress = |p| self.watch.progress(p);
        let done = measure::continue_or_begin(experiment, self.machine, dir, self.stop, &mut progress)?;
        self.left.extend(done.left.iter().cloned());
        match &done.ended {
            Ended::Failed(why) => self.ended_early = Some(why.clone()),
            Ended::Interrupted => self.ended_early = Some("interrupted".into()),
            _ if self.stop.load(Ordering::Relaxed) => self.ended_early = Some("interrupted".into()),
            _ => {}
        }
        Ok(done)
    }
}

fn offers(
    question: &Question,
    machine: &Machine,
    look: &Plan,
    measured: &Measurement,
) -> (Option<Vec<Offer>>, Vec<(String, String)>) {
    let Ok(aggressor) = question.aggressor() else { return (Some(Vec::new()), Vec::new()) };
    let role = &look.experiment.roles[1 - look.metric];
    // A run that was killed may have left groups behind that are nobody's.
    let resctrl = fenced::recover(Duration::from_secs(30))
        .map_err(|error| error.to_string())
        .and_then(|()| Shared::here());
    let scene = Scene {
        topology: &machine.topology,
        look,
        aggressor: &aggressor,
        table: &question.aggressor,
        role,
        placement: present_placement(look, machine),
        bytes_per_s: bytes_per_s(look, measured, question.aggressors),
        try_env: &question.try_env,
        resctrl: &resctrl,
    };
    let wanted = |name: &str| question.levers.is_empty() || question.levers.iter().any(|known| known == name);
    let (mut offers, mut refused) = (Vec::new(), Vec::new());
    for lever in levers::all() {
        if !wanted(lever.name()) {
            continue;
        }
        match lever.offers(&scene) {
            Ok(some) => offers.extend(some),
            Err(why) => refused.push((lever.name().to_owned(), why)),
        }
    }
    (Some(offers), refused)
}

fn bytes_per_s(look: &Plan, measured: &Measurement, count: u32) -> Option<f64> {
    let results = results::results(look, &measured.samples, 0.95);
    let beside = results.iter().find(|result| result.arm == BESIDE)?;
    let aggressor = beside.co_runners.iter().find(|other| other.role == AGGRESSOR)?;
    Some(aggressor.bytes_per_s? / f64::from(count.max(1)))
}

// How the aggressor really lies to the victim, whatever was asked for.
fn present_placement(look: &Plan, machine: &Machine) -> PlacementKind {
    let cpus = |role: usize| look.placed.cpus[role].first().copied().unwrap_or(0);
    let (victim, aggressor) = (cpus(look.metric), cpus(1 - look.metric));
    let topology = &machine.topology;
    if !topology.different_cores(victim, aggressor) {
        PlacementKind::Smt
    } else if topology.shares_llc(victim, aggressor).unwrap_or(true) {
        PlacementKind::Llc
    } else if topology.node_of(victim) == topology.node_of(aggressor) {
        PlacementKind::Node
    } else {
        PlacementKind::Remote
    }
}
