//! Measures the stages, as far as each turns out to be needed.

use std::time::Duration;

use ringfence_analysis::estimate::FEWEST_TRIALS;
use ringfence_analysis::results;
use ringfence_experiment::plan::Plan;
use ringfence_experiment::task::Task;
use ringfence_experiment::units::Span;
use ringfence_experiment::{Error, ErrorKind, PlacementKind, Reason};
use ringfence_machine::Machine;

use super::proof::Proof;
use super::question::{ANY_LEVER, LEFT_OUT, OTHER_SETTINGS};
use super::settles::trial_length;
use super::time::{self, Given, Precision, Takes};
use super::{
    AGGRESSOR, BESIDE, Control, Files, Question, Record, Worked, control, experiments, levers,
    order,
};
use crate::measure;
use crate::{Done, Here, Kept, Planned, Stage, Study};
use ringfence_limits::lever::{Candidate, LeverContext, Shared};

/// The baseline's plan: what can be checked before anything runs.
///
/// # Errors
/// One sentence for what makes no sense or cannot be had here.
pub fn plan_of_baseline(question: &Question, machine: &Machine) -> Result<Plan, Error> {
    let names = levers::names();
    if let Some(name) = question.levers.iter().find(|name| !names.contains(&name.as_str())) {
        return Err(Error::usage(format!(
            "'{name}' is not a lever; the levers are: {}",
            names.join(", ")
        )));
    }
    if let Some(why) = control::does_nothing(question.victim.task()) {
        return Err(Error::usage(why));
    }
    let whole = whole_runs(question);
    let plan = crate::plan(&experiments::baseline(question, whole, Given::default()), machine)?;
    crate::refuse_parts(&plan, machine)?;
    if machine.simulated.is_none() {
        measure::tasks_can_be_measured(&plan)?;
    }
    Ok(plan)
}

/// The time of a proof for which neither a time nor trials were given: [`time::DEFAULT`], or what
/// the first look takes where that is longer. None where runs are timed whole, since what one takes
/// is not known yet, and on a described machine, whose time is simulated.
pub fn default_time(question: &Question, plan: &Plan, machine: &Machine) -> Option<Span> {
    let whole = whole_runs(question);
    if question.trials.is_some() || whole || machine.simulated.is_some() {
        return None;
    }
    let least = least_time(question, plan.least_trial(), whole).as_secs_f64().ceil();
    Some(Span(time::DEFAULT.max(Duration::from_secs_f64(least))))
}

/// Refuses a time that is too short for any answer, as far as that is known before anything runs:
/// what a run takes that is timed from start to end is only known once one has ended.
///
/// # Errors
/// One sentence, with the least that makes sense.
pub fn check_time(question: &Question, plan: &Plan, machine: &Machine) -> Result<(), Error> {
    if whole_runs(question) {
        return Ok(());
    }
    check_least(question, plan.least_trial(), false, machine)
}

fn check_least(
    question: &Question,
    trial: Duration,
    whole: bool,
    machine: &Machine,
) -> Result<(), Error> {
    let least = least_time(question, trial, whole);
    let Some(time) = question.time.filter(|time| time.0 < least) else { return Ok(()) };
    let takes = Takes { trial, baseline: least, ..Takes::default() };
    Err(too_short(time, least, time::enough(takes, can_have_levers(question, machine))))
}

/// What can be known in the time or the trials of a question, as far as that can be said before a
/// run has been timed.
pub fn precision(question: &Question, plan: &Plan, machine: &Machine) -> Option<Precision> {
    let whole = whole_runs(question);
    (!whole || question.time.is_none())
        .then(|| precision_of(question, whole, plan.least_trial(), machine))?
}

fn precision_of(
    question: &Question,
    whole: bool,
    trial: Duration,
    machine: &Machine,
) -> Option<Precision> {
    let time = question
        .time
        .map(|time| time::of_baseline(time.0, trial, can_have_levers(question, machine)));
    let experiment = experiments::baseline(question, whole, Given { time, trial });
    Precision::of(question.budget, &experiment.measure, time)
}

fn least_time(question: &Question, trial: Duration, whole: bool) -> Duration {
    let first = if whole { time::FIRST_LOOK_OF_RUNS } else { time::FIRST_LOOK };
    // A trial is about what the control takes: two windows, or a run and one of twice the time.
    let control = if question.wants_control() { trial.mul_f64(1.5) } else { Duration::ZERO };
    time::least(trial, control, first)
}

fn too_short(time: Span, least: Duration, enough: Duration) -> Error {
    let tenths = (least.as_secs_f64() * 10.0).ceil() / 10.0;
    Error::usage(format!(
        "--time {time} is too short: the first look alone takes at least {tenths:.1}s here; give \
         --time {}s, which is enough for levers too, or shorter windows (--window)",
        enough.as_secs()
    ))
}

// Whether a lever could be offered, if the look asks for one: a guess before the aggressor was
// measured, which only says how the time is divided.
fn can_have_levers(question: &Question, machine: &Machine) -> bool {
    let needs_resctrl = |name: &String| ["cat", "mba", "cat+mba"].contains(&name.as_str());
    question.levers.is_empty()
        || !question.levers.iter().all(needs_resctrl)
        || match machine.simulated {
            Some(_) => machine.resctrl.is_some(),
            None => ringfence_limits::resctrl::missing().is_none(),
        }
}

fn whole_runs(question: &Question) -> bool {
    ringfence_experiment::plan::is_whole_run(question.victim.task())
}

/// Measures until the matter is settled, or resumes where an interrupted run stopped; `plan` is
/// that of [`plan_of_baseline`].
///
/// # Errors
/// Where nothing can be measured. What fails or is interrupted later is part of the answer.
pub fn run(question: &Question, plan: Plan, here: &mut Here) -> Result<Done<Proof>, Error> {
    let files = Files::of(here.dir);
    let mut record = Record::new(question);
    // What was offered before, if this resumes an earlier run: other programs may use resctrl
    // differently by now.
    if let Some(earlier) = files.read().ok().filter(|earlier| earlier.question == *question) {
        record = earlier;
    }
    let looked = files.baseline().exists();
    let mut proving =
        Proving { question, plan, files, record, whole: whole_runs(question), looked };
    crate::carry_out(&mut proving, here)
}

struct Proving<'a> {
    question: &'a Question,
    // The baseline's.
    plan: Plan,
    files: Files,
    record: Record,
    // Whether the victim's runs are timed whole.
    whole: bool,
    // Whether an earlier run has begun to look.
    looked: bool,
}

impl Study for Proving<'_> {
    type Findings = Proof;

    fn stages(&self) -> Vec<Duration> {
        // How long they take depends on what they show.
        vec![Duration::ZERO; 3]
    }

    fn kept(&self) -> Option<Kept> {
        Some(Kept::new(Files::RECORD, &self.record))
    }

    fn next(&mut self, stages: &[Stage], here: &mut Here) -> Result<Option<Planned>, Error> {
        match stages {
            [] => self.baseline(here),
            [baseline] => {
                if let Some(worked) = worked(baseline) {
                    self.record.worked = Some(self.record.worked.unwrap_or_default().and(worked));
                }
                match Proof::new(&self.record, stages).needs_levers() {
                    true => self.levers(*baseline, here),
                    false => Ok(None),
                }
            }
            [_, _, confirmed @ ..] => self.confirmation(stages, confirmed.len(), here),
        }
    }

    fn conclude(&mut self, stages: &[Stage], _: Option<&str>) -> Result<Proof, Error> {
        Ok(Proof::new(&self.record, stages))
    }
}

impl Proving<'_> {
    fn baseline(&mut self, here: &mut Here) -> Result<Option<Planned>, Error> {
        let question = self.question;
        if question.wants_control() && self.record.control.is_none() && !self.looked {
            self.record.control =
                Some(control(question, here).map_err(|error| out_of_time(error, question))?);
        }
        // What was looked at by a version that took a control for enough that could not tell, goes
        // on.
        let refuses =
            |control: &Control| control.depends().map_or(!self.looked, |depends| !depends);
        if self.record.control.as_ref().is_some_and(refuses) {
            return Ok(None);
        }
        let trial = self.trial();
        if question.time.is_some() && self.whole && !self.looked {
            check_least(question, trial, self.whole, here.machine)?;
            if let Some(precision) = precision_of(question, self.whole, trial, here.machine) {
                here.watch.precision(&precision);
            }
        }
        let time = question.time.map(|time| {
            time::of_baseline(time.0, trial, can_have_levers(question, here.machine))
                .saturating_sub(here.elapsed())
        });
        let experiment = experiments::baseline(question, self.whole, Given { time, trial });
        // How long it is measured is known now; what is measured is the same.
        let mut plan = self.plan.clone();
        plan.experiment.measure = experiment.measure;
        Ok(Some(Planned { name: "baseline".into(), dir: self.files.baseline(), plan }))
    }

    // What a trial takes, alone and beside: a run each where runs are timed.
    fn trial(&self) -> Duration {
        self.run_ns().map_or(self.plan.least_trial(), |ns| Duration::from_nanos(2 * ns as u64))
    }

    fn run_ns(&self) -> Option<f64> {
        self.record.control.as_ref().and_then(Control::run_ns)
    }

    // Of the question's time, what is left.
    fn left(&self, here: &Here) -> Option<Duration> {
        self.question.time.map(|time| time.0.saturating_sub(here.elapsed()))
    }

    fn levers(&mut self, baseline: Stage, here: &Here) -> Result<Option<Planned>, Error> {
        let (question, machine) = (self.question, here.machine);
        // Each setting alone and beside, and the aggressor as it is, in as many trials as a figure
        // takes.
        let takes = trials_it_takes(baseline, BESIDE).min(question.most_trials(self.whole));
        if !self.files.levers().exists() {
            let worked = self.record.worked;
            (self.record.candidates, self.record.refused) =
                candidates(question, machine, baseline, worked);
            if let Some(left) = self.left(here) {
                self.leave_out_levers(baseline, left, takes, machine);
            }
        }
        let candidates = self.record.candidates.clone().unwrap_or_default();
        let time =
            self.left(here).map(|left| self.time_for_levers(&candidates, left, takes, machine));
        let given = Given { time, trial: self.trial() };
        let experiment = experiments::levers(question, self.whole, &candidates, takes, given);
        let name = format!("levers ({})", settings(candidates.len()));
        if candidates.is_empty() {
            return Ok(None);
        }
        Planned::new(&name, self.files.levers(), &experiment, machine).map(Some)
    }

    // Those that what is left of the time does not hold, named together with the time that would.
    fn leave_out_levers(&mut self, baseline: Stage, left: Duration, takes: u32, machine: &Machine) {
        let all = self.record.candidates.take().unwrap_or_default();
        let time = self.time_for_levers(&all, left, takes, machine);
        let least_of_all = self.least_for_levers(&all, takes, machine);
        let holds = |some: &[Candidate]| self.least_for_levers(some, takes, machine) <= time;
        let (kept, out) = order::fitting(all, &self.question.levers, &holds);
        if !out.is_empty() {
            let confirmation = self.trial() * 2 * takes;
            self.advise(&[baseline], least_of_all, confirmation);
            let why = no_time_for_levers(time, least_of_all, takes, &kept, &out);
            let what = if kept.is_empty() { ANY_LEVER } else { OTHER_SETTINGS };
            self.record.refused.push((what.into(), why));
        }
        self.record.candidates = Some(kept);
    }

    // Keeps the time in which all stages have what they take, trials being as long as they were.
    fn advise(&mut self, stages: &[Stage], levers: Duration, confirmation: Duration) {
        let planned = self.trial();
        let trial = stages.iter().find_map(|stage| trial_length(*stage)).unwrap_or(planned);
        let longer = (trial.as_secs_f64() / planned.as_secs_f64().max(1e-9)).max(1.0);
        let takes = Takes {
            trial: planned.mul_f64(longer),
            baseline: least_time(self.question, planned, self.whole).mul_f64(longer),
            levers: levers.mul_f64(longer),
            confirmation: confirmation.mul_f64(longer),
        };
        let settled = Proof::new(&self.record, stages).settles.and_then(|settles| settles.time);
        let settled = settled.filter(|time| *time <= time::LONGEST).unwrap_or_default();
        let enough = time::enough(takes, true).max(time::as_typed(settled));
        let earlier = self.record.enough_time.map_or(Duration::ZERO, |time| time.0);
        self.record.enough_time = Some(Span(enough.max(earlier)));
    }

    fn time_for_levers(
        &self,
        candidates: &[Candidate],
        left: Duration,
        takes: u32,
        machine: &Machine,
    ) -> Duration {
        let least = |some: &[Candidate]| self.least_for_levers(some, takes, machine);
        let one =
            candidates.iter().map(|one| least(std::slice::from_ref(one))).min().unwrap_or_default();
        time::for_levers(left, one, least(candidates), self.trial() * 2 * takes)
    }

    fn least_for_levers(
        &self,
        candidates: &[Candidate],
        takes: u32,
        machine: &Machine,
    ) -> Duration {
        let trial = self.trial();
        if self.run_ns().is_some() {
            return trial * (candidates.len() as u32 + 1) * takes;
        }
        let given = Given { time: Some(Duration::ZERO), trial };
        let experiment = experiments::levers(self.question, self.whole, candidates, takes, given);
        crate::plan(&experiment, machine).map_or(trial * takes, |plan| least_of(&plan, takes))
    }

    fn confirmation(
        &mut self,
        stages: &[Stage],
        number: usize,
        here: &Here,
    ) -> Result<Option<Planned>, Error> {
        self.record.unconfirmed = None;
        let proof = Proof::new(&self.record, stages);
        let candidates = self.record.candidates.as_deref().unwrap_or_default();
        let Some(candidate) = proof.next().and_then(|next| candidates.get(next)) else {
            return Ok(None);
        };
        let time =
            self.left(here).map(|left| time::of_confirmation(left, proof.is_last_candidate()));
        let (dir, trial) = (self.files.confirmation(number), self.trial());
        let experiment = experiments::confirmation(
            self.question,
            self.whole,
            candidate,
            number,
            Given { time, trial },
        );
        let name = candidate.arm.name.clone();
        let takes = stages.get(1).map_or(FEWEST_TRIALS, |levers| trials_it_takes(*levers, &name));
        let takes = takes.min(self.question.most_trials(self.whole));
        let called = format!("confirming '{name}'");
        let planned = Planned::new(&called, dir, &experiment, here.machine)?;
        // Beside the aggressor and with the lever, and alone before each.
        let least = match self.run_ns() {
            Some(_) => trial * 2 * takes,
            None => least_of(&planned.plan, takes),
        };
        if let Some(left) = time.filter(|left| *left < least && !planned.dir.exists()) {
            self.record.unconfirmed = Some((name, no_time_to_confirm(left, least, takes)));
            self.advise(stages, Duration::ZERO, least);
            return Ok(None);
        }
        Ok(Some(planned))
    }
}

// Of the levers it goes by the victim beside the aggressor as it is: with one it is rather quicker.
fn trials_it_takes(stage: Stage, arm: &str) -> u32 {
    let case = stage.plan.measured().into_iter().find(|case| stage.plan.cases[*case].arm == arm);
    case.map_or(FEWEST_TRIALS, |case| results::trials_it_takes(stage.plan, stage.samples, case))
}

// The least that so many trials of an experiment take, and that it is not refused in.
fn least_of(plan: &Plan, trials: u32) -> Duration {
    (plan.least_trial() * trials).max(plan.least_time())
}

fn no_time_to_confirm(left: Duration, least: Duration, trials: u32) -> Reason {
    format!(
        "{:.1} s of the time remain for it, and {trials} trials take at least {:.1} s",
        left.as_secs_f64(),
        least.as_secs_f64()
    )
    .into()
}

fn settings(count: usize) -> String {
    if count == 1 { "1 setting".into() } else { format!("{count} settings") }
}

fn no_time_for_levers(
    time: Duration,
    least: Duration,
    trials: u32,
    kept: &[Candidate],
    out: &[Candidate],
) -> Reason {
    let names: Vec<String> = out.iter().map(|one| format!("'{}'", one.arm.name)).collect();
    format!(
        "{:.1} s of the time remain for levers, and {trials} trials with {} take at least {:.1} \
         s{LEFT_OUT}{}",
        time.as_secs_f64(),
        settings(kept.len() + out.len()),
        least.as_secs_f64(),
        names.join(", ")
    )
    .into()
}

// Nothing was measured: the first run had not ended when the time was over.
fn out_of_time(error: Error, question: &Question) -> Error {
    match (error.kind(), question.time) {
        (ErrorKind::OutOfTime, Some(time)) => Error::usage(format!(
            "--time {time} is too short for one run of the victim and one run in which it is \
             stopped half of the time; give at least 20 times the length of a run"
        )),
        _ => error,
    }
}

// What the aggressor did in the baseline, of which the measurement knows what was used in it now.
fn worked(baseline: &Stage) -> Option<Worked> {
    let role = 1 - baseline.plan.metric;
    let used = *baseline.used.get(role).filter(|used| used.windows_ns > 0)?;
    let telling = baseline.plan.variants[role].iter().all(|variant| match &variant.task {
        Task::Command(command) => command.unit.is_shown(),
        Task::Attached(_) => false,
        _ => true,
    });
    // Of the same windows: those of an earlier run were told then, or not at all.
    let own = baseline.fresh.iter().filter(|sample| *sample.role == *AGGRESSOR);
    Some(Worked { used, units: telling.then(|| own.map(|sample| sample.units).sum()) })
}

fn control(question: &Question, here: &mut Here) -> Result<Control, Error> {
    here.begin("control");
    let left = question.time.map(|time| time.0.saturating_sub(here.elapsed()));
    let plan = crate::plan(&experiments::control(question), here.machine)?;
    measure::with_engine(&plan, here.machine, here.stop, |plan, engine| {
        control::measure(plan, engine, left)
    })
}

fn candidates(
    question: &Question,
    machine: &Machine,
    baseline: Stage,
    worked: Option<Worked>,
) -> (Option<Vec<Candidate>>, Vec<(String, Reason)>) {
    let plan = baseline.plan;
    let role = &plan.experiment.roles[1 - plan.metric];
    // A run that was killed may have left groups behind that no process owns.
    let resctrl = match machine.simulated {
        Some(_) => Shared::described(machine),
        None => ringfence_limits::resctrl::recover(Duration::from_secs(30))
            .map_err(|error| error.to_string().into())
            .and_then(|()| Shared::here()),
    };
    let context = LeverContext {
        features: machine.features.as_ref(),
        topology: &machine.topology,
        baseline: plan,
        aggressor: question.aggressor.task(),
        tasks: question.aggressor.tasks(),
        role,
        placement: present_placement(plan, machine),
        bytes_per_s: bytes_per_s(baseline, question.aggressors),
        disk_bytes_per_s: worked.and_then(|worked| worked.disk_bytes_per_s()),
        try_env: &question.try_env,
        other_dir: question.other_dir.as_deref(),
        system: question.system,
        resctrl: &resctrl,
    };
    let wanted = |name: &str| {
        question.levers.is_empty() || question.levers.iter().any(|known| known == name)
    };
    let (mut candidates, mut refused) = (Vec::new(), Vec::new());
    for lever in levers::all() {
        if !wanted(lever.name()) {
            continue;
        }
        match lever.candidates(&context) {
            Ok(some) => candidates.extend(some),
            Err(why) => refused.push((lever.name().to_owned(), why)),
        }
    }
    if machine.simulated.is_some() {
        candidates = simulated(question, machine, candidates, &mut refused);
    }
    (Some(candidates), refused)
}

/// Replaces the instructions for keeping a setting that was not measured.
pub const KEEP_NOTHING: &str = "not from this result: it was simulated; measure on such a machine \
                                first";

// Those that can be simulated. What was simulated says how nothing is kept.
fn simulated(
    question: &Question,
    machine: &Machine,
    candidates: Vec<Candidate>,
    refused: &mut Vec<(String, Reason)>,
) -> Vec<Candidate> {
    let experiment =
        experiments::levers(question, false, &candidates, FEWEST_TRIALS, Given::default());
    let Ok(plan) = crate::plan(&experiment, machine) else { return candidates };
    let mut kept = Vec::new();
    for candidate in candidates {
        let of_it =
            (0..plan.cases.len()).filter(|case| plan.cases[*case].arm == candidate.arm.name);
        match of_it.into_iter().find_map(|case| plan.refusal(case)) {
            Some(why) => {
                let line = (candidate.lever, why.clone());
                if !refused.contains(&line) {
                    refused.push(line);
                }
            }
            None => kept.push(Candidate {
                keep: KEEP_NOTHING.into(),
                commands: Vec::new(),
                ..candidate
            }),
        }
    }
    kept
}

fn bytes_per_s(baseline: Stage, count: u32) -> Option<f64> {
    let results = results::results(baseline.plan, baseline.samples, 0.95);
    let beside = results.iter().find(|result| result.arm == BESIDE)?;
    let aggressor = beside.co_runners.iter().find(|other| other.role == AGGRESSOR)?;
    Some(aggressor.bytes_per_s? / f64::from(count.max(1)))
}

// Where the aggressor really runs relative to the victim, whatever was asked for.
fn present_placement(baseline: &Plan, machine: &Machine) -> PlacementKind {
    let cpus = |role: usize| baseline.placed.cpus[role].first().copied().unwrap_or(0);
    let (victim, aggressor) = (cpus(baseline.metric), cpus(1 - baseline.metric));
    let topology = &machine.topology;
    if victim == aggressor || topology.same_core(victim, aggressor) == Some(true) {
        PlacementKind::Smt
    } else if topology.shares_llc(victim, aggressor).unwrap_or(true) {
        PlacementKind::Llc
    } else if topology.node_of(victim) == topology.node_of(aggressor) {
        PlacementKind::Node
    } else {
        PlacementKind::Remote
    }
}
