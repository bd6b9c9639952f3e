//! Measures the stages, as far as each turns out to be needed.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ringfence_analysis::results;
use ringfence_dataset::Dataset;
use ringfence_engine::isolation;
use ringfence_experiment::ended::Ended;
use ringfence_experiment::plan::Plan;
use ringfence_experiment::task::{ProgramUnit, Task};
use ringfence_experiment::units::Span;
use ringfence_experiment::{Experiment, PlacementKind};
use ringfence_machine::Machine;

use super::lever::{Offer, Scene, Shared};
use super::proof::{Proof, Stage};
use super::time::{self, Given, Precision};
use super::{AGGRESSOR, BESIDE, Control, Files, Question, Record, Worked, control, experiments, levers};
use crate::StudyError;
use crate::measure::{self, Measurement};
use crate::survey::Watch;

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
pub fn plan_of_look(question: &Question, machine: &Machine) -> Result<Plan, StudyError> {
    let usage = |error: ringfence_experiment::ExperimentError| StudyError::Usage(error.to_string());
    question.victim().map_err(usage)?;
    question.aggressor().map_err(usage)?;
    let names = levers::names();
    if let Some(name) = question.levers.iter().find(|name| !names.contains(&name.as_str())) {
        return Err(StudyError::Usage(format!("'{name}' is no lever; there are: {}", names.join(", "))));
    }
    if let Some(why) = question.victim().ok().as_ref().and_then(control::does_nothing) {
        return Err(StudyError::Usage(why));
    }
    let whole = whole_runs(question);
    let experiment = measure::decided(&experiments::look(question, whole, Given::default()));
    let plan = Plan::new(&experiment, &machine.topology, machine.features.as_ref()).map_err(usage)?;
    let refused = (0..plan.cases.len()).find_map(|case| plan.refusal(case));
    if let Some(why) = refused {
        return Err(StudyError::Usage(format!("this cannot be measured here, because {why}")));
    }
    measure::programs_can_be_measured(&plan).map(|()| plan)
}

/// Refuses a time that is too short for any answer, as far as that is known before anything runs: what a
/// run takes that is timed from start to end is only known once one has ended.
///
/// # Errors
/// One sentence, with the least that makes sense.
pub fn check_time(question: &Question, plan: &Plan) -> Result<(), StudyError> {
    let whole = whole_runs(question);
    let least = least_time(question, plan.least_life(), whole);
    match question.time.filter(|time| !whole && time.0 < least) {
        Some(time) => Err(too_short(time, least)),
        None => Ok(()),
    }
}

/// What can be known in the time or the lives of a question, as far as that can be said before a run
/// has been timed.
pub fn precision(question: &Question, plan: &Plan) -> Option<Precision> {
    let whole = whole_runs(question);
    (!whole || question.time.is_none()).then(|| precision_of(question, whole, plan.least_life()))?
}

fn precision_of(question: &Question, whole: bool, life: Duration) -> Option<Precision> {
    let time = question.time.map(|time| time::of_look(time.0, life, can_have_levers(question)));
    let experiment = experiments::look(question, whole, Given { time, life });
    Precision::of(question.budget, &experiment.measure, time)
}

fn least_time(question: &Question, life: Duration, whole: bool) -> Duration {
    let first = if whole { time::FIRST_LOOK_OF_RUNS } else { time::FIRST_LOOK };
    // A life is about what the control takes: two windows, or a run and one of twice the time.
    let control = if question.wants_control() { life.mul_f64(1.5) } else { Duration::ZERO };
    time::least(life, control, first)
}

fn too_short(time: Span, least: Duration) -> StudyError {
    // Rounded up to two digits that a person would type.
    let tenths = (least.as_secs_f64() * 10.0).ceil() / 10.0;
    StudyError::Usage(format!(
        "--time {time} is too short to tell anything: the first look alone takes {tenths:.1}s at least here; give that, or \
         shorter windows (--window)"
    ))
}

// Whether a lever could be offered, if the look asks for one: a guess before the aggressor was measured, which
// only says how the time is divided.
fn can_have_levers(question: &Question) -> bool {
    let needs_resctrl = |name: &String| ["cat", "mba", "cat+mba"].contains(&name.as_str());
    question.levers.is_empty()
        || !question.levers.iter().all(needs_resctrl)
        || isolation::resctrl::missing().is_none()
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
) -> Result<Proved, StudyError> {
    let plan = plan_of_look(question, machine)?;
    let files = Files::of(dir);
    let whole = whole_runs(question);
    let mut record = Record::new(question);
    // What was offered before, if this goes on: others may use resctrl differently by now.
    if let Some(earlier) = files.read().ok().filter(|earlier| earlier.question == *question) {
        record = earlier;
    }
    let spent = files.measured_for();
    let mut stages = Stages {
        machine,
        stop,
        watch,
        number: 0,
        ended_early: None,
        left: Vec::new(),
        begun: Instant::now(),
        spent,
    };
    let time = question.time.map(|time| time.0);

    // Before anything is measured, so that whoever is killed can go on; what cannot be begun leaves
    // nothing behind.
    let begun = files.record().exists();
    files.write(&record).map_err(StudyError::Failed)?;
    let looked = files.look().exists();
    if question.wants_control() && record.control.is_none() && !looked {
        match stages.control(question, time) {
            Ok(control) => record.control = Some(control),
            Err(error) => {
                if !begun {
                    files.remove();
                }
                return Err(out_of_time(error, question));
            }
        }
        files.write(&record).map_err(StudyError::Failed)?;
    }
    // What was looked at by a version that took a control for enough that could not tell, goes on.
    let refuses = |control: &&Control| control.depends().map_or(!looked, |depends| !depends);
    if let Some(control) = record.control.as_ref().filter(refuses) {
        return Ok(Proved { proof: Proof::refused(&record, control), ended_early: None, left: Vec::new() });
    }
    let run = record.control.as_ref().and_then(Control::run_ns);
    // Alone and beside: a run each.
    let life = run.map_or(plan.least_life(), |ns| Duration::from_nanos(2 * ns as u64));
    let levers_possible = can_have_levers(question);
    if let Some(time) = question.time.filter(|_| whole && !looked) {
        let least = least_time(question, life, whole);
        if time.0 < least {
            if !begun {
                files.remove();
            }
            return Err(too_short(time, least));
        }
        if let Some(precision) = precision_of(question, whole, life) {
            stages.watch.note(&precision.to_string());
        }
    }

    let given = |time: Option<Duration>| Given { time, life };
    let of_look =
        time.map(|time| time::of_look(time, life, levers_possible).saturating_sub(stages.elapsed()));
    let look = stages.measure("look", &experiments::look(question, whole, given(of_look)), &files.look());
    if look.is_err() && !begun && !files.look().exists() {
        files.remove();
    }
    let look = look?;
    if let Some(worked) = worked(&look) {
        record.worked = Some(record.worked.unwrap_or_default().and(worked));
        files.write(&record).map_err(StudyError::Failed)?;
    }
    let mut proof = Proof::new(&record, stage(&look), None, &[]);
    if stages.ended_early.is_some() || !proof.needs_levers() {
        return Ok(Proved { proof, ended_early: stages.ended_early, left: stages.left });
    }

    if !files.levers().exists() {
        (record.offers, record.refused) = offers(question, machine, &look.plan, &look);
    }
    let offers = record.offers.clone().unwrap_or_default();
    let of_levers = time.map(|time| time::of_levers(time.saturating_sub(stages.elapsed())));
    // Each setting alone and beside, and the aggressor as it is, in two lives.
    let experiment = experiments::levers(question, whole, &offers, given(of_levers));
    let planned =
        Plan::new(&experiment, &machine.topology, machine.features.as_ref()).map(|plan| plan.least_life());
    let least = match run {
        Some(_) => life * (offers.len() as u32 + 1),
        None => planned.unwrap_or(life),
    } * 2;
    if let Some(left) = of_levers.filter(|left| *left < least && !files.levers().exists()) {
        record.refused.push(("any lever".into(), no_time_for_levers(left, least, offers.len())));
        record.offers = Some(Vec::new());
    }
    files.write(&record).map_err(StudyError::Failed)?;
    let offers = record.offers.clone().unwrap_or_default();
    if offers.is_empty() {
        proof = Proof::new(&record, stage(&look), Some(stage(&look)), &[]);
        return Ok(Proved { proof, ended_early: None, left: stages.left });
    }
    let name = format!("levers ({} settings)", offers.len());
    let experiment = experiments::levers(question, whole, &offers, given(of_levers));
    let tried = stages.measure(&name, &experiment, &files.levers())?;
    let mut confirmed: Vec<Measurement> = Vec::new();
    loop {
        let confirmations: Vec<Stage> = confirmed.iter().map(stage).collect();
        proof = Proof::new(&record, stage(&look), Some(stage(&tried)), &confirmations);
        let Some(next) = proof.next().filter(|_| stages.ended_early.is_none()) else { break };
        let (number, offer) = (confirmed.len(), &offers[next]);
        let left = time.map(|time| time::of_confirmation(time.saturating_sub(stages.elapsed()), number));
        let folder = files.confirmation(number);
        // Two lives alone, beside, and with the lever: less is no interval.
        if left.is_some_and(|left| left < life * 4) && !folder.exists() {
            break;
        }
        let experiment = experiments::confirmation(question, whole, offer, number, given(left));
        let name = format!("confirming '{}'", offer.arm.name);
        confirmed.push(stages.measure(&name, &experiment, &folder)?);
    }
    Ok(Proved { proof, ended_early: stages.ended_early, left: stages.left })
}

fn no_time_for_levers(left: Duration, least: Duration, settings: usize) -> String {
    format!(
        "{:.1} s of the time are left for it, and two lives with {settings} settings take {:.1} s at least; more --time, or \
         fewer --levers, would try it",
        left.as_secs_f64(),
        least.as_secs_f64()
    )
}

// Nothing was measured: the first run had not ended when the time was over.
fn out_of_time(error: StudyError, question: &Question) -> StudyError {
    match (error, question.time) {
        (StudyError::OutOfTime, Some(time)) => StudyError::Usage(format!(
            "--time {time} is too short: one run of the victim, and one in which it is stopped half of the time, had not \
             ended by then; give at least 20 times what a run takes"
        )),
        (error, _) => error,
    }
}

// What the aggressor did in the look, of which the measurement knows what was used in it now.
fn worked(look: &Measurement) -> Option<Worked> {
    let role = 1 - look.plan.metric;
    let used = *look.used.get(role).filter(|used| used.windows_ns > 0)?;
    let telling = look.plan.variants[role].iter().all(|variant| match &variant.task {
        Task::Command(command) => matches!(command.unit, ProgramUnit::Lines | ProgramUnit::Counter),
        _ => true,
    });
    let own = look.samples.iter().filter(|sample| *sample.role == *AGGRESSOR);
    Some(Worked { used, units: telling.then(|| own.map(|sample| sample.units).sum()) })
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
    begun: Instant,
    // Measured by earlier parts.
    spent: Duration,
}

impl Stages<'_> {
    // Of the question's time, by all stages together.
    fn elapsed(&self) -> Duration {
        self.spent + self.begun.elapsed()
    }

    fn control(&mut self, question: &Question, time: Option<Duration>) -> Result<Control, StudyError> {
        self.watch.stage("control", self.number, 3, Duration::ZERO, Duration::ZERO);
        self.number += 1;
        let left = time.map(|time| time.saturating_sub(self.elapsed()));
        measure::with_engine(&experiments::control(question), self.machine, self.stop, |plan, engine| {
            control::measure(plan, engine, left)
        })
    }

    fn measure(
        &mut self,
        name: &str,
        experiment: &Experiment,
        dir: &Path,
    ) -> Result<Measurement, StudyError> {
        self.watch.stage(name, self.number, 3.max(self.number + 1), Duration::ZERO, Duration::ZERO);
        self.number += 1;
        let mut progress = |p| self.watch.progress(p);
        // What was begun goes on as it was planned then, by an earlier version too.
        let mut experiment = experiment.clone();
        if ringfence_dataset::is_dataset(dir) {
            experiment.measure = Dataset::open(dir)?.plan.experiment.measure;
        }
        let done = measure::continue_or_begin(&experiment, self.machine, dir, self.stop, &mut progress)?;
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
    let resctrl = isolation::resctrl::recover(Duration::from_secs(30))
        .map_err(|error| error.to_string())
        .and_then(|()| Shared::here());
    let scene = Scene {
        features: machine.features.as_ref(),
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
